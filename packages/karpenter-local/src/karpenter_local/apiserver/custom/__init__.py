"""
Kinds that users define: from a CustomResourceDefinition to a kind that is served like any other.

:mod:`.definition` reads a definition, :mod:`.rules` judges it, :mod:`.lifecycle` serves and retires what it
defines, :mod:`.strategy` writes its objects by its schema. Schemas are enforced by
:mod:`karpenter.api.schema`.
"""
