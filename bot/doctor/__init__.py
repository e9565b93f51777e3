"""`insomnia doctor`: looks at everything the bot stands on, and says for each thing that is wrong how to mend it.

`seen` is what was found, as data; `collect` finds it; `rules` judge it, purely; nothing here writes anything or prints a secret.
"""
