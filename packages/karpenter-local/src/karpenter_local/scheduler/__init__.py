"""
The embedded kube-scheduler: which node each pending pod gets, and why it gets none.

Read in this order: :mod:`.podinfo` and :mod:`.nodeinfo` (pods and nodes as values), :mod:`.nodetable` (the
cluster as arrays, kept up to date one event at a time), the filters and scores (:mod:`.filters`,
:mod:`.nodefilters`, :mod:`.noderesources`, :mod:`.spread`, :mod:`.affinity`, :mod:`.volumes`,
:mod:`.score`), :mod:`.place` (the decision about one pod), :mod:`.preempt` (the victims to evict for it),
:mod:`.queue`, :mod:`.schedule_one` (all of it together, without I/O), and :mod:`.loop`, the only file that
talks to the API server. See https://kubernetes.io/docs/concepts/scheduling-eviction/scheduling-framework/
"""
