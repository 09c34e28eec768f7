"""What can go wrong through no fault of the code, as one small family of exceptions.

RegardError           the command ends with its one sentence and exit code 2
└── RecipeError       a recipe's key, value or file is not what it may be
"""


class RegardError(Exception):
    """A mistake a user can mend; its text is one sentence that says how."""


class RecipeError(RegardError):
    """A recipe that cannot be used: the sentence names the key, the value and what is allowed."""
