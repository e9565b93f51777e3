"""The consolidation worker: staged candidates become records, through tools on an overlay, and one commit.

`consolidator` decides when and holds the lock; `run` is one run; `desk` is what the model's tools do, `overlay` what they have
made so far, `guards` what they may not; `journal` and `commit` bring it to the disk; `trash` remembers, `undo` takes it back.
"""
