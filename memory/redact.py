"""Secrets leave a text before a model, a file or a line sees it: each becomes `[REDACTED:kind]`.

What must stay true: redacting twice changes nothing; every pattern is bounded, so that no text makes it slow. A word too
many taken out costs little, a password kept costs everything: where a shape is in doubt, it goes.
"""

from __future__ import annotations

import re

_WORDS = (
    r"pass(?:word|wd|phrase|code)?|pwd|secret|token|api[ _-]?key|access[ _-]?key|private[ _-]?key|client[ _-]?secret|credential"
    r"|パスワード|パスコード|暗証番号|秘密鍵|合言葉|トークン|シークレット|(?:API|アクセス)キー"
)
# The longer shapes first: a JWT behind `Bearer` goes as what it is carried in.
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (
            "private_key",
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:[\s\S]{0,8000}?-----END [A-Z0-9 ]{0,40}-----|[\w+/=\s:,.-]{0,8000})",  # the end may have been cut off
        ),
        ("slack_webhook", r"(?i)https?://hooks\.slack(?:-gov)?\.com/[A-Za-z]{1,20}/[\w/+-]{1,200}"),
        ("slack_token", r"(?i)xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{5,300}|xapp-[A-Za-z0-9-]{5,300}"),
        ("anthropic_key", r"sk-ant-[\w-]{5,300}"),
        ("api_key", r"(?<![A-Za-z0-9])(?:sk|pk|rk)[-_](?:live[-_]|test[-_]|proj-|svcacct-|or-)?[A-Za-z0-9_-]{16,300}"),
        ("github_token", r"gh[a-z]_[A-Za-z0-9]{16,300}|github_pat_\w{16,300}|glpat-[\w-]{16,300}"),
        ("aws_key", r"(?<![A-Za-z0-9])(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,30}"),
        ("google_key", r"AIza[\w-]{30,60}|ya29\.[\w-]{20,300}|GOCSPX-[\w-]{20,60}"),
        ("package_token", r"npm_[A-Za-z0-9]{30,60}|pypi-[\w-]{40,300}|hf_[A-Za-z0-9]{30,60}|SG\.[\w-]{16,40}\.[\w-]{30,60}"),
        ("jwt", r"eyJ[\w-]{8,4000}\.[\w-]{4,4000}\.[\w-]{0,1000}"),
        ("authorization", r"(?i)(?<=\bauthorization:)\s{0,4}(?:[A-Za-z]{1,20}\s{1,4})?+(?!\[REDACTED)\S{6,4000}"),
        ("authorization", r"(?i)(?<=\bbearer )(?!\[REDACTED)(?=[^\s]{0,200}[0-9_.~+/=-])[\w.~+/=-]{12,4000}"),
        ("url_password", r"(?<=://)[^\s/@:\[\]]{0,100}:[^\s/@]{1,200}(?=@)"),
        ("aws_secret", r"(?i)(?<=aws)[\w ]{0,30}(?:secret|key)[\w \"']{0,30}[:=]\s{0,4}[\"']?[A-Za-z0-9/+=]{30,60}"),
        (
            "password",
            rf"(?i)((?:{_WORDS})s?[\"'`*]{{0,3}}\s{{0,4}}(?:は|が|：|＝|:=?|=>?|\bis\b|\bwas\b)[\s\"'`*「『]{{0,6}}+)"
            r"(?!\[REDACTED)[^\s\"'`」』、。]{6,300}",
        ),
    )
)


def redact(text: str) -> str:
    for kind, shape in _SHAPES:
        keep = r"\g<1>" if shape.groups else ""
        text = shape.sub(f"{keep}[REDACTED:{kind}]", text)
    return text
