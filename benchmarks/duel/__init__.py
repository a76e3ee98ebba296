"""The duel: Karpenter in Go and our operator, side by side on clusters of their own, with the same pods."""


class DuelError(Exception):
    """A cluster, an operator or a program does not do what the duel needs of it."""
