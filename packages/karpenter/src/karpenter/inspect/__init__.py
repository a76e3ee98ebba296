"""
Looking at an installation in its account: instances, roles, policies, queues, rules, and releases.

:mod:`.reading` asks AWS and returns plain data as the API gives it, and the rows that people see of it;
:mod:`karpenter.install.table` prints rows.
"""
