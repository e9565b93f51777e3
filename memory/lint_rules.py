"""The rules of the linter: stable ids, how grave each is, and the harm that it stops.

What must stay true: an id never changes its meaning; a rule is here only if tests show its harm (test_lint_harm,
test_guards).
`docs/memory-rules.md` is generated from here: `python -m memory.lint_rules > docs/memory-rules.md`.
"""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class Rule(StrEnum):
    PLACE = "L101"
    SLUG = "L102"
    NO_PLAIN_FILE = "L103"
    SLUG_TAKEN = "L104"
    SLUG_MISSING = "L105"
    STALE = "L106"
    NO_FRONTMATTER = "L201"
    LINE = "L202"
    KEY_TWICE = "L203"
    KEY_UNKNOWN = "L204"
    KEY_MISSING = "L205"
    VALUE = "L206"
    TIME = "L207"
    ENCODING = "L208"
    EMPTY = "L301"
    BODY_LONG = "L302"
    TITLE_LONG = "L303"
    FILE_LONG = "L304"
    REFERENCE = "L401"
    REPLACED_BY = "L402"
    REPLACED_CYCLE = "L403"
    REPLACED_STATUS = "L404"
    STILL_REFERRED_TO = "L405"
    FOREIGN_CANDIDATE = "L406"
    SCOPE = "L407"
    TRUST = "L408"
    NOBODYS_RULE = "L409"
    SECRET = "L501"
    INJECTION = "L502"
    INVISIBLE = "L503"
    SPECIFICS_LOST = "L601"
    PINNED = "L602"
    IN_USE = "L603"
    BUDGET = "L604"
    LOSS_CAP = "L605"
    MERGE_ACROSS = "L606"
    KNOWLEDGE_SOURCES = "L607"
    NOT_HELD = "L608"
    RELATIVE_DATE = "W701"
    NEAR_DUPLICATE = "W702"

    @property
    def severity(self) -> Severity:
        return Severity.WARNING if self.value.startswith("W") else Severity.ERROR


GROUPS = {
    "L1": "Path and slug",
    "L2": "Frontmatter",
    "L3": "Text",
    "L4": "References and sources",
    "L5": "Secrets, instructions, invisible characters",
    "L6": "What a consolidation run may not do",
    "W7": "Warnings",
}

# What is wrong, and the harm that it does.
RULES: dict[Rule, tuple[str, str]] = {
    Rule.PLACE: (
        "a file or folder in a place that nothing reads",
        "Somebody believes that the bot knows what stands there.",
    ),
    Rule.SLUG: (
        "a file name that is no slug: small letters, digits, single hyphens, at most 64",
        "A name may lead out of the store, or be two names on one disk and one on another.",
    ),
    Rule.NO_PLAIN_FILE: (
        "a link, a hard link, a FIFO, a folder or a file that cannot be read, where a record should be",
        "Reading follows the link to a file outside the store and shows that to a model, or waits for ever.",
    ),
    Rule.SLUG_TAKEN: (
        "a new record under a slug that there is already",
        "The record that has the slug is overwritten.",
    ),
    Rule.SLUG_MISSING: (
        "a change of a record that is not there",
        "What somebody deleted comes back to life.",
    ),
    Rule.STALE: (
        "a change of a record that is not any more as it was read",
        "An edit made meanwhile is lost.",
    ),
    Rule.NO_FRONTMATTER: (
        "no frontmatter, or one without an end",
        "The fields are taken for text, or the text for fields: a record without scope would be everybody's.",
    ),
    Rule.LINE: (
        "a line of the frontmatter that can be read in two ways, or that would be lost (comments, anchors, tags, nested values)",
        "Tools read different values from one file; a few lines of aliases fill the memory.",
    ),
    Rule.KEY_TWICE: (
        "a key that is there twice",
        "Most readers take the last one without a word: a second `scope` makes a private note public.",
    ),
    Rule.KEY_UNKNOWN: (
        "a key that records of this kind do not have",
        "A misspelt key is passed over: `pined: true` protects nothing.",
    ),
    Rule.KEY_MISSING: (
        "a key without which no record can be used",
        "A default takes its place, and no default is right: not for scope, not for trust.",
    ),
    Rule.VALUE: (
        "a value that the key cannot have",
        "A record with the status `actve` is in no list and in no answer.",
    ),
    Rule.TIME: (
        "a time in another form, that does not exist, or `updated_at` before `created_at`",
        "Records are ordered by time: one that cannot be ordered wins or loses at random.",
    ),
    Rule.ENCODING: (
        "not UTF-8, a byte order mark, or CRLF line ends",
        "Some readers see no frontmatter at all in such a file, and say nothing.",
    ),
    Rule.EMPTY: (
        "an empty title, description or text",
        "Nothing to find it by, or nothing to read: it only takes a place in a list.",
    ),
    Rule.BODY_LONG: (
        "a text of more than 8,000 characters",
        "One record fills the answer of a query, and the context that it goes into.",
    ),
    Rule.TITLE_LONG: (
        "a title of more than 120 characters, or a description of more than 200",
        "Lists are read whole by a model: one long line in it crowds out the others.",
    ),
    Rule.FILE_LONG: (
        "a file of more than 64 KiB",
        "It would be read into memory at every look, whatever its size.",
    ),
    Rule.REFERENCE: (
        "a `[[slug]]` of a record that is not there",
        "A reader is sent to a text that was never written.",
    ),
    Rule.REPLACED_BY: (
        "`replaced_by` names a record of its kind that is not there, or itself; or, in a run, one that does not hold",
        "The old text is taken out of use, and nothing takes its place.",
    ),
    Rule.REPLACED_CYCLE: (
        "records that replace each other in a circle",
        "None of them is the one that holds; whoever follows them does not come back.",
    ),
    Rule.REPLACED_STATUS: (
        "the status `replaced` without `replaced_by`, or the other way round",
        "Old and new both hold, or the new one cannot be found from the old.",
    ),
    Rule.STILL_REFERRED_TO: (
        "removing a record that others refer to",
        "The others are sent to nothing from then on.",
    ),
    Rule.FOREIGN_CANDIDATE: (
        "a change that cites a candidate which is not of this run",
        "A record shows a source that never said it.",
    ),
    Rule.SCOPE: (
        "a change of a record of another scope than the run's, or with candidates of another place",
        "What somebody said in a direct message is read in a public channel.",
    ),
    Rule.TRUST: (
        "a change that mixes what people said with what a tool or a page said",
        "A sentence of a web page stands in a record as the word of a colleague.",
    ),
    Rule.NOBODYS_RULE: (
        "a decision, request, preference, constraint, policy or rule that no person said",
        "A line in a document that the bot once read becomes a standing order.",
    ),
    Rule.SECRET: (
        "something that looks like a password, a key or a token",
        "It goes into prompts, into answers and into the repository's history.",
    ),
    Rule.INJECTION: (
        "a sentence that gives orders to a model",
        "What somebody quoted once becomes an instruction in every conversation that reads it.",
    ),
    Rule.INVISIBLE: (
        "characters that cannot be seen, or that turn the direction of the text",
        "A person approves one text, and the model reads another.",
    ),
    Rule.SPECIFICS_LOST: (
        "a change after which a name, number, date or address is missing that was not declared to go",
        "Each rewriting leaves a little out; after a year of them half is gone, and nobody saw it go.",
    ),
    Rule.PINNED: (
        "a worker's change of a record that a person pinned",
        "What somebody said must stay is rewritten by a guess.",
    ),
    Rule.IN_USE: (
        "dropping a record that was read lately, taking specifics or most of its text from it, or ending it for no reason that was said",
        "The next answer that would have rested on it is a guess.",
    ),
    Rule.BUDGET: (
        "more than 12 changes in one run",
        "A model that has lost its way rewrites the whole memory before anybody looks.",
    ),
    Rule.LOSS_CAP: (
        "taking away, replacing or rewriting more than a fifth of the records, or three, in one run, or twice as many in a day",
        "One bad run wipes the memory.",
    ),
    Rule.MERGE_ACROSS: (
        "a merge of records of different kinds, or of what holds with what does not",
        "A question that was open is buried in a decision, and nobody answers it.",
    ),
    Rule.KNOWLEDGE_SOURCES: (
        "new knowledge that rests neither on a person's word nor on two sources",
        "One guess of the model is everybody's fact from then on.",
    ),
    Rule.NOT_HELD: (
        "a candidate settled by a record in which hardly a word, or not half of its numbers, stands",
        "What somebody said is filed under a text that does not say it, and nobody finds it again.",
    ),
    Rule.RELATIVE_DATE: (
        "a date that is only true on the day it was written: today, 昨日, next week",
        "Read a month later it names another day.",
    ),
    Rule.NEAR_DUPLICATE: (
        "two records of one kind and scope that say nearly the same",
        "One is corrected, the other is found.",
    ),
}


def as_markdown() -> str:
    parts = [
        "# Rules for memory records\n\nGenerated: `python -m memory.lint_rules > docs/memory-rules.md`. "
        "`insomnia memory lint` checks the files, the tools check each change before it is made.\n"
    ]
    for prefix, title in GROUPS.items():
        rows = [f"| {rule} | {what} | {harm} |" for rule, (what, harm) in RULES.items() if rule.startswith(prefix)]
        parts.append("\n".join((f"## {title}\n", "| rule | what is wrong | what it would do |", "|---|---|---|", *rows)) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(as_markdown(), end="")
