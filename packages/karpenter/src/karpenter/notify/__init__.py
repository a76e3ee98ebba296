"""
Events of the operator, as messages to people: which are worth one, and how many at a time.

:mod:`.outbox` decides and knows no network; :mod:`karpenter.cli.notify` reads the Events and sends the
messages.
"""
