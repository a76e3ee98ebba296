"""
A cluster in one process: API server, storage, scheduler, controllers and kubelets, for demos, tests and
simulation.
"""
