"""The errors a user can meet. Each message is one sentence: what is wrong, where, and what to do."""


class MasqueradeError(Exception):
    """Anything that went wrong for a reason the user can act on; the command line prints it without a traceback."""


class CheckpointError(MasqueradeError):
    """A checkpoint that cannot be read, or does not fit the model it claims to be."""


class LayoutError(MasqueradeError, ValueError):
    """Tokens that cannot be laid out as asked."""


class SpecError(MasqueradeError, ValueError):
    """A network description whose parts are unknown or do not fit together."""
