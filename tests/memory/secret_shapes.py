"""One made-up secret of every common shape."""

from __future__ import annotations

SECRETS = {
    "slack bot": "xox" + "b-123456789012-1234567890123-AbCdEfGhIjKl",
    "slack user": "xox" + "p-123456789012-abcdef",
    "slack config": "xox" + "e.xoxp-1-Mi0yLTEyMzQ1Njc4",
    "slack app": "xap" + "p-1-A0123-456-abcdef0123",
    "slack webhook": "https://hooks.slack" + ".com/services/T000/B000/XXXXyyyyZZZZ",
    "anthropic": "sk-" + "ant-api03-AbC_dEf-123456",
    "openai": "sk-" + "proj-abcdEFGH1234567890",
    "openai old": "sk-" + "abcdefghijklmnopqrst1234",
    "stripe": "sk_" + "live_abcdefGHIJ123456",
    "github": "ghp" + "_abcdefghijklmnopqrstuvwxyz0123456789",
    "github oauth": "gho" + "_abcdefghijklmnopqrstuvwxyz0123456789",
    "github fine": "github_" + "pat_11ABCDEFG0abcdefghij_klmnop",
    "gitlab": "glp" + "at-abcdefghij1234567890",
    "aws id": "AKIA" + "IOSFODNN7EXAMPLE",
    "google": "AIza" + "SyA-1234567890abcdefghijklmnopqrstu",
    "npm": "npm" + "_abcdefghijklmnopqrstuvwxyz0123456789",
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq\nabcdef\n-----END RSA PRIVATE KEY-----",
    "pem cut short": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA",
}
