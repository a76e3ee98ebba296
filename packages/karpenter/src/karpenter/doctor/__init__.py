"""
What is wrong with an installation of Karpenter, and how to put it right.

:mod:`.facts` is what is known about a cluster, an account or a folder of manifests, as one value;
:mod:`.rules` is the table of rules, each a pure function of that value. Facts are gathered by :mod:`.gather`
(files and a live cluster), :mod:`.gather_aws` (an account) and :mod:`.terraform` (a folder of Terraform).
"""
