"""
Kinds that users define: from a CustomResourceDefinition to a kind that is served like any other.

:mod:`.definition` reads a definition, :mod:`.rules` validates it, :mod:`.lifecycle` serves and removes what
it defines, :mod:`.strategy` writes its objects by its schema. :mod:`karpenter.api.schema` validates objects
against schemas.
"""
