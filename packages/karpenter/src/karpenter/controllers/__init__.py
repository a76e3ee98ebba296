"""
The shell: look, ask the core, perform, wait.

One small file per loop, none with an opinion: whatever is decided is decided in ``karpenter.core``.
"""
