"""Secrets leave a text before a model, a file or a line sees it: each becomes `[REDACTED:kind]`.

What must stay true: redacting twice changes nothing; every pattern is bounded, so that no text makes it slow. A word too
many taken out costs little, a password kept costs everything: where a shape is in doubt, it goes. Shapes are looked for in
the text as it looks (NFKC, without signs that nobody sees) and cut out of the text as it is.
"""

from __future__ import annotations

import re
import unicodedata

_WORDS = (
    r"pass(?:word|wd|phrase|code)?|pwd|(?<![A-Za-z0-9])p[wW](?![A-Za-z0-9])|secret|token|api[ _-]?key|access[ _-]?key|private[ _-]?key"
    r"|client[ _-]?secret|credential|パスワード|パスコード|パスフレーズ|暗証番号|秘密鍵|合言葉|トークン|シークレット|(?:API|アクセス)キー"
)
_PIN = r"(?:(?<![A-Za-z])PIN(?![A-Za-z])|暗証番号|パスコード|passcode)(?:\s?(?:code|number|コード|番号))?"
_LABEL = rf"(?:{_WORDS})s?[\"'`*]{{0,3}}(?:\s?(?:for|of|on|to|at|in)\s[^\n:=]{{1,40}}?|\s?\([^)\n]{{1,40}}\))?\s{{0,4}}"
_GAP = r"\s{0,4}(?:```\w{0,12}\s{1,3})?[\s\"'`*「『]{0,6}+(?!\[REDACTED)"
_V = r"[^\s\"'`」』、。]"  # a sign of a value
_A = r"[!#-&(-_a-~]"  # the same, ASCII only
_ODD = r"[\d!@#$%^&*+=~?_-]"
_LOOKS = rf"(?=[^\s]{{0,100}}[A-Za-z])(?=[^\s]{{0,100}}(?:\d|[!@#$%^&+=~?]\w)){_A}{{6,300}}"
_KNOWN_NAMES = r"(?:sha|utf|iso|rfc|md|base|oauth|argon|pbkdf|python|windows)[-_ ]?\d|<[@#!]|[^\s]{0,40}(?:https?:|//)"
_POLICY = r"\d{1,4}\s?(?:文字|字|桁|日|回|週|秒|分|時|[かヶカケ]?月|年|種|個|つ|名|人|以上|以下)"
_BELOW = r"(?:below|following|as follows|here it is|次の(?:通り|とおり|もの|値|文字)|以下|下記|こちら|これです|お知らせ|お送り|共有)"
_TOKEN = (
    r"(?:gh[a-z]_|github_pat_|glpat-|xox[a-z]-|xox[a-z]\.xox[a-z]-|xapp-|sk-ant-|sk-proj-|[srp]k_(?:live|test)_|AKIA|ASIA|AIza|ya29\."
    r"|GOCSPX-|npm_|pypi-|hf_|eyJ)"
)
_T = r"[\w+/=.-]"
_NEXT_LINE = r"[ \t\r]{0,4}\n[> \t|]{0,6}"
# The longer shapes first: a JWT behind `Bearer` goes as what it is carried in. What a first group holds stays.
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (
            "private_key",
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:[^-]*+(?:-(?!----)[^-]*+)*+-----END [A-Z0-9 ]{0,40}-----|[\w+/=\s:,.>|-]{0,100000})",  # the end may have been cut off
        ),
        ("slack_webhook", r"(?i)https?://hooks\.slack(?:-gov)?\.com/[A-Za-z]{1,20}/[\w/+-]{1,200}"),
        (
            "token",  # broken by line ends: a next line goes too where it looks like the rest, or where the first is too short
            rf"(?<![A-Za-z0-9]){_TOKEN}(?:{_T}{{0,300}}(?:{_NEXT_LINE}(?={_T}{{0,300}}(?:\d|[a-z][A-Z])){_T}{{6,300}}(?=[^\w]|$)){{1,4}}"
            rf"|{_T}{{0,14}}{_NEXT_LINE}{_T}{{8,300}}(?=[^\w]|$))",
        ),
        ("slack_token", r"(?i)xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{5,300}|xapp-[A-Za-z0-9-]{5,300}"),
        ("anthropic_key", r"sk-ant-[\w-]{5,300}"),
        ("api_key", r"(?<![A-Za-z0-9])(?:sk|pk|rk)[-_](?:live[-_]|test[-_]|proj-|svcacct-|or-)?[A-Za-z0-9_-]{16,300}"),
        ("github_token", r"gh[a-z]_[A-Za-z0-9]{16,300}|github_pat_\w{16,300}|glpat-[\w-]{16,300}"),
        ("aws_key", r"(?<![A-Za-z0-9])(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,30}"),
        (
            "aws_secret",
            r"(\[REDACTED:aws_key\][\s\S]{0,120}?(?<![A-Za-z0-9/+]))(?![0-9a-f]{40})[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])",
        ),
        (
            "aws_secret",
            r"(?<![A-Za-z0-9/+])(?![0-9a-f]{40})[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])(?=[\s\S]{0,120}\[REDACTED:aws_key\])",
        ),
        ("google_key", r"AIza[\w-]{30,60}|ya29\.[\w-]{20,300}|GOCSPX-[\w-]{20,60}"),
        ("package_token", r"npm_[A-Za-z0-9]{30,60}|pypi-[\w-]{40,300}|hf_[A-Za-z0-9]{30,60}|SG\.[\w-]{16,40}\.[\w-]{30,60}"),
        ("jwt", r"eyJ[\w-]{8,4000}\.[\w-]{4,4000}\.[\w-]{0,1000}"),
        ("authorization", r"(?i)(?<=\bauthorization:)\s{0,4}(?:[A-Za-z]{1,20}\s{1,4})?+(?!\[REDACTED)\S{6,4000}"),
        ("authorization", r"(?i)(?<=\bbearer )(?!\[REDACTED)(?=[^\s]{0,200}[0-9_.~+/=-])[\w.~+/=-]{12,4000}"),
        ("url_password", r"(?<=://)[^\s/@:\[\]]{0,100}:[^\s/|<>]{1,200}(?=@)"),
        ("curl_password", r"(\bcurl\b[^\n]{0,300}?\s(?:-u|--user)[\s=]{0,3}[\"']?[^\s:\"']{0,100}:)(?!\[REDACTED)[^\s\"']{1,200}"),
        ("account_key", r"(?i)((?:Account|SharedAccess)Key=)(?!\[REDACTED)[^\s;\"'&]{10,300}"),
        ("aws_secret", r"(?i)(?<=aws)[\w ]{0,30}(?:secret|key)[\w \"']{0,30}[:=]\s{0,4}[\"']?[A-Za-z0-9/+=]{30,60}"),
        (
            "password",  # announced, and on the lines that follow
            rf"(?i)((?:(?:{_WORDS})[^\n]{{0,60}}?{_BELOW}|{_BELOW}[^\n]{{0,40}}?(?:{_WORDS}))[^\n]{{0,30}}\n[> \t\n]{{0,6}})(?!\[REDACTED)"
            r"(?:```\w{0,12}\s{1,3}(?!\[REDACTED)[^`]{1,2000}"
            r"|[^\s`。]{4,300}(?:[ \t]{0,4}\n[> \t]{0,4}[!-~]{6,300}(?=\s|$)){0,3}(?=\s{0,4}(?:\n|$))"
            r"|[^\n`]{4,200}[^\n`.。!?](?=\n|$))",
        ),
        ("pin", rf"(?i)({_PIN}\s{{0,3}}(?:は|が|:|=|\bis\b)?[\s\"'`*「]{{0,4}}+)(?<!\d)\d(?:[ -]?\d){{3,11}}(?![\d年])"),
        ("password", rf"(?i)({_LABEL}(?:は|が|:=?|=>?|\bis\b|\bwas\b)\s{{0,4}}\")(?!\[REDACTED)[^\"\n]{{3,200}}(?=\")"),
        ("password", rf"(?i)({_LABEL}(?:は|が|:=?|=>?|\bis\b|\bwas\b)\s{{0,4}}')(?!\[REDACTED)[^'\n]{{3,200}}(?=')"),
        ("password", rf"(?i)({_LABEL}(?:は|が|:=?|=>?|を|\bis\b|\bwas\b)?\s{{0,4}}[「『“])(?!\[REDACTED)[^」』”\n]{{3,200}}(?=[」』”])"),
        ("password", rf"(?i)({_LABEL}(?:は|が|:=?|=>?|\bis\b|\bwas\b)\s{{0,4}}`)(?!\[REDACTED)[^`\n]{{3,200}}(?=`)"),
        ("password", rf"(?i)({_LABEL}(?:\bis\b|\bwas\b){_GAP})(?!{_KNOWN_NAMES}){_LOOKS}"),
        ("password", rf"(?i)({_LABEL}(?::=?|=>?){_GAP})(?:(?={_V}{{0,40}}{_ODD}){_V}{{4,300}}|{_V}{{6,300}})"),
        (
            "password",
            rf"(?i)((?:{_WORDS})s?[\"'`*]{{0,3}}\s{{0,4}}(?:\bis\b|\bwas\b){_GAP})(?!below|as follows|the following){_V}{{6,300}}",
        ),
        (
            "password",
            rf"(?i)((?:{_WORDS})[\"'`*]{{0,3}}\s{{0,4}}[はが]{_GAP})(?!{_POLICY})"
            rf"(?:(?={_A}{{0,60}}{_ODD}){_A}{{4,300}}|{_A}{{4,300}}(?=\s{{0,2}}(?:です|でした|だ|[」。、\n]|$))"
            rf"|{_V}{{1,40}}?\d{{3,100}}(?![\d年日文]){_A}{{0,100}}|[ぁ-ゖァ-ヺー]{{5,40}}?(?=\s?(?:です|でした|だよ)))",
        ),
        (
            "password",
            rf"(?i)((?:{_WORDS})を{_GAP})(?!{_POLICY})[^\s、。]{{0,40}}?{_A}{{3,200}}(?=[^\s、。]{{0,40}}[\s\"'`]{{0,3}}[にへと](?:変|設|更|し|す|リセット|戻))",
        ),
        ("password", rf"(?i)((?:{_WORDS})(?:\s(?:to|was|now))?[ \t\"'`*]{{1,4}}+(?!\[REDACTED))(?!{_KNOWN_NAMES}){_LOOKS}"),
    )
)
# Controls, direction marks, zero-width signs, variation selectors, fillers, tags: they only hide or break words.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_CLUSTER = re.compile(rf"(?s).(?:{_UNSEEN.pattern}|[\u0300-\u036f\u3099\u309a\uff9e\uff9f])*+")
_MOST_PASSES = 3  # what a first one takes out may bring two parts of another together


def visible(text: str) -> str:
    """Without the signs that nobody sees."""
    return _UNSEEN.sub("", text)


def redact(text: str) -> str:
    for _ in range(_MOST_PASSES):
        before, text = text, _redact_once(text)
        if text == before:
            break
    return text


def _redact_once(text: str) -> str:
    seen, origin = _as_it_looks(text)
    for kind, shape in _SHAPES:
        kept, kept_origin, at = list[str](), list[str](), 0
        for found in shape.finditer(seen):
            begin, mark = found.end(1) if shape.groups else found.start(), f"[REDACTED:{kind}]"
            kept += seen[at:begin], mark
            kept_origin += [*origin[at:begin], *mark]
            at = found.end()
        if kept:
            seen, origin = "".join([*kept, seen[at:]]), kept_origin + origin[at:]
    return "".join(origin)


def _as_it_looks(text: str) -> tuple[str, list[str]]:
    """The text to look at, and for each of its characters the part of `text` that it stands for."""
    seen, origin = list[str](), list[str]()
    if text.isascii() and not _UNSEEN.search(text):
        return text, list(text)
    unseen = ""  # what the text begins with
    for found in _CLUSTER.finditer(text):
        folded = unicodedata.normalize("NFKC", visible(found[0])[:8])
        if folded:
            seen.append(folded)
            origin += [unseen + found[0], *[""] * (len(folded) - 1)]
        unseen = "" if folded else found[0]
    return "".join(seen), [*origin, unseen]
