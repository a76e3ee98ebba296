"""
EC2 instances: launched for NodeClaims, described, tagged and terminated.

:mod:`.filter` chooses the instance types that a launch asks for, :mod:`.createfleet` asks for them,
:mod:`.launch_errors` says what an error of a launch means, and :mod:`.launch` runs the steps in order.
:mod:`.instance` describes and terminates instances, through :mod:`.describeinstances` and
:mod:`.terminateinstances`, which batch the calls.
"""
