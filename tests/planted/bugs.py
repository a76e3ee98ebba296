"""
The bugs: each a text of the source, what stands there instead, and the rules of which one must find it.

All are mistakes that a change could make: a condition forgotten, a comparison turned around, a wait left out.

Not here are bugs that no run can show, because another part makes up for them: a leader without the check of
its fence is stopped by its elector (a process that is frozen is what ``tests/integration/test_fencing.py``
has), volumes of the embedded cluster are detached at once, and a claim whose machine is gone goes with its
node.
"""

from __future__ import annotations

from typing import Final

from tests.planted.plant import PlantedBug

_DRAINING: Final = (
    PlantedBug(
        name="pods are deleted instead of evicted",
        find="return EvictPod() if is_evictable(pod, now) else RetryEviction()",
        put="return DeletePod(pod_grace_period(pod)) if is_evictable(pod, now) else RetryEviction()",
        rules=("protection",),
    ),
    PlantedBug(
        name="pods that must not be disrupted are evicted",
        find="or is_owned_by_node(pod) or has_do_not_disrupt(pod, now)",
        put="or is_owned_by_node(pod)",
        rules=("protection",),
    ),
    PlantedBug(
        name="with a grace period, pods are deleted at once",
        find="return now > by - timedelta(seconds=pod_grace_period(pod))",
        put="return True",
        rules=("protection",),
    ),
    PlantedBug(
        name="nodes are drained without being closed",
        find="return Step(effects=(*tainted, *step.effects), again=step.again)",
        put="return Step(effects=step.effects, again=step.again)",
        rules=("protection", "drain"),
    ),
    PlantedBug(
        name="`or` became `and` in the check before termination",
        find="if not found.is_done or not _was_tainted_long_enough(condition_set, now):",
        put="if not found.is_done and not _was_tainted_long_enough(condition_set, now):",
        rules=("drain",),
    ),
    PlantedBug(
        name="a node counts as drained once pods are asked to go",
        find="return not self.waiting",
        put="return not self.evicting",
        rules=("drain",),
    ),
    PlantedBug(
        name="terminating pods are not waited for",
        find="return is_drainable(pod) and not _is_stuck_terminating(pod, now)",
        put="return is_drainable(pod) and not is_terminating(pod)",
        rules=("drain",),
    ),
    PlantedBug(
        name="a claim ends its machine without draining its node",
        find="if condition_set.is_true(REGISTERED) and nodes:",
        put="if condition_set.is_true(conditions.DISRUPTION_REASON) and nodes:",
        rules=("drain",),
    ),
    PlantedBug(
        name="finalizers go as soon as the machine is told to end",
        find="            await self.perform(effect.going)",
        put="            await self.perform(effect.gone or effect.going)",
        rules=("finalizers",),
    ),
    PlantedBug(
        name="the finalizer of an empty node goes before its machine",
        find="    if terminating.machine_gone:",
        put="    if terminating.machine_gone or not terminating.pods:",
        rules=("finalizers",),
    ),
)

_BUDGETS: Final = (
    PlantedBug(
        name="budgets forget running disruptions",
        find="return max(0, self.ceiling(pool_size) - disrupting)",
        put="return max(0, self.ceiling(pool_size))",
        rules=("budgets",),
    ),
    PlantedBug(
        name="the caller of budgets forgets running disruptions",
        find="each.left(size[name], disrupting[name])",
        put="each.left(size[name], 0)",
        rules=("budgets",),
    ),
    PlantedBug(
        name="shares of budgets are one too many",
        find="return -(-pool_size * (self.percent or 0) // 100)",
        put="return -(-pool_size * (self.percent or 0) // 100) + 1",
        rules=("budgets",),
    ),
    PlantedBug(
        name="budgets for some reasons never apply",
        find="if self.reasons and reason not in self.reasons:",
        put="if self.reasons:",
        rules=("budgets",),
    ),
    PlantedBug(
        name="windows of budgets are never open",
        find="return self.window is None or self.window.is_open(now)",
        put="return self.window is None",
        rules=("budgets",),
    ),
    PlantedBug(
        name="of several budgets the loosest decides",
        find="return min(open_now, key=lambda budget: budget.ceiling(pool_size), default=_EVERYTHING)",
        put="return max(open_now, key=lambda budget: budget.ceiling(pool_size), default=_EVERYTHING)",
        rules=("budgets",),
    ),
)

_VALIDITY: Final = (
    PlantedBug(
        name="the second look is skipped: a command is begun as it was found",
        find="            found = await self._validate(command)\n",
        put="            found = await self._validate(command)\n            await self._clock.sleep(15.0)\n",
        rules=("validity", "budgets"),
    ),
    PlantedBug(
        name="do-not-disrupt of nodes is ignored",
        find='            node.annotations.get(DO_NOT_DISRUPT) == "true",\n',
        put="            False,\n",
        rules=("validity",),
    ),
    PlantedBug(
        name="do-not-disrupt of pods is ignored",
        find="if is_active(pod) and (reason := do_not_disrupt_reason(pod, now)):",
        put="if not is_active(pod) and (reason := do_not_disrupt_reason(pod, now)):",
        rules=("validity",),
    ),
    PlantedBug(
        name="PodDisruptionBudgets are not asked before a disruption",
        find="if pod.key not in surging and (obstacle := pdbs.eviction_blocked_by(pod, now)):",
        put="if pod.key in surging and (obstacle := pdbs.eviction_blocked_by(pod, now)):",
        rules=("validity",),
    ),
    PlantedBug(
        name="nodes that are not initialized are disrupted",
        find="(not node.is_initialized, DisruptionCode.NOT_INITIALIZED",
        put="(not node.is_registered, DisruptionCode.NOT_INITIALIZED",
        rules=("validity",),
        runs=60,
    ),
    PlantedBug(
        name="consolidateAfter is ignored",
        find="    until = consolidatable_at(claim, pool, now)\n    return until is not None and now >= until",
        put="    until = consolidatable_at(claim, pool, now)\n    return until is not None",
        rules=("validity",),
    ),
    PlantedBug(
        name="pods that come or go are noted every ten minutes only",
        find="DEDUPE_TIMEOUT: Final = timedelta(seconds=10)",
        put="DEDUPE_TIMEOUT: Final = timedelta(minutes=10)",
        rules=("validity",),
    ),
    PlantedBug(
        name="a node with a few pods counts as empty",
        find="return self.cost <= 1.0",
        put="return self.cost <= 3.0",
        rules=("validity",),
    ),
    PlantedBug(
        name="nodes of static pools are removed when they are empty",
        find="if each.is_empty and each.is_dynamic and not is_buffered(",
        put="if each.is_empty and not is_buffered(",
        rules=("validity",),
    ),
    PlantedBug(
        name="the last look before removal is skipped",
        find="staying = (pod for pod in node.pods if is_active(pod))",
        put="staying = (pod for pod in node.pods if not is_active(pod))",
        rules=("validity",),
        runs=60,
    ),
    PlantedBug(
        name="a protected node is removed once its disruption has begun",
        find='    if node.annotations.get(DO_NOT_DISRUPT) == "true":\n        return f"the node has',
        put='    if node.annotations.get(DO_NOT_DISRUPT) == "never":\n        return f"the node has',
        rules=("validity",),
    ),
    PlantedBug(
        name="every claim counts as drifted",
        find='return "NodePoolDrifted" if ours[NODEPOOL_HASH] != theirs[NODEPOOL_HASH] else ""',
        put='return "NodePoolDrifted" if ours[NODEPOOL_HASH] != theirs[NODEPOOL_HASH_VERSION] else ""',
        rules=("validity", "steady state"),
    ),
)

_COMMANDS: Final = (
    PlantedBug(
        name="a replacement has the labels of the template of now",
        find="create(node, command.pools[node.pool], rules",
        put="create(node, view.pools.get(node.pool, command.pools[node.pool]), rules",
        rules=("template",),
        runs=60,
    ),
    PlantedBug(
        name="replacements are not waited for",
        find="waiting = waiting or not is_status_condition_true(claim.status.conditions, INITIALIZED)",
        put='waiting = waiting or not is_status_condition_true(claim.status.conditions, "Launched")',
        rules=("replacement",),
    ),
    PlantedBug(
        name="what runs counts as dearer than it is",
        find="return min((each.price for each in mine if each.available or each.price), default=None)",
        put="return min((3 * each.price for each in mine if each.available or each.price), default=None)",
        rules=("replacement", "steady state"),
    ),
)

_MACHINES: Final = (
    PlantedBug(
        name="startup taints are ignored",
        find="for taint in claim.spec.startup_taints:\n        if any(same_taint(taint, each)",
        put="for taint in ():\n        if any(same_taint(taint, each)",
        rules=("initialized",),
    ),
    PlantedBug(
        name="startup taints are not put on nodes",
        find="            taints = merge(taints, claim.spec.startup_taints)\n",
        put="            taints = merge(taints, claim.spec.taints)\n",
        rules=("registration",),
    ),
    PlantedBug(
        name="nodes are opened without their finalizer",
        find="if TERMINATION_FINALIZER not in node.metadata.finalizers:\n        metadata",
        put="if TERMINATION_FINALIZER in node.metadata.finalizers:\n        metadata",
        rules=("registration",),
    ),
    PlantedBug(
        name="daemons are not counted",
        find="        kept.append(pod)\n        found.append(daemon)\n",
        put="",
        rules=("daemons",),
    ),
    PlantedBug(
        name="what runs on a node is not counted",
        find="return subtract(self.allocatable, merge(pod_requests(pod) for pod in self.pods))",
        put="return self.allocatable",
        rules=("waiting", "service"),
    ),
    PlantedBug(
        name="every pod tolerates every taint",
        find="return first_untolerated(tolerations, taints) is None",
        put="return first_untolerated(tolerations, ()) is None",
        rules=("drain", "placement", "waiting", "service"),
    ),
    PlantedBug(
        name="machines that never join are waited for without end",
        find="ends = condition_set.since(REGISTERED) + timeouts.registration",
        put="ends = condition_set.since(REGISTERED) + timeouts.registration * 100",
        rules=("waiting", "ownership"),
    ),
    PlantedBug(
        name="limits of NodePools are ignored",
        find="PoolLimits(template) for template in templates if template.pool.limits}",
        put="PoolLimits(template) for template in templates if not template}",
        rules=("limits",),
    ),
    PlantedBug(
        name="what a NodePool has already does not count for its limits",
        find="    used = pool_usage(active)\n",
        put="    used: dict[str, dict[str, int]] = {}\n",
        rules=("limits",),
    ),
    PlantedBug(
        name="a static pool forgets its limit",
        find="lacking = min(wanted - there.active, _room(pool, there, wanted))",
        put="lacking = wanted - there.active",
        rules=("static pools",),
    ),
    PlantedBug(
        name="a lost CreateFleet answer is not recognised",
        find="and not each.leaving and is_launched_for(each.tags, uid)",
        put="and each.leaving and is_launched_for(each.tags, uid)",
        rules=("launched once", "belonging", "limits"),
        provider="aws",
    ),
)

_SHELL: Final = (
    PlantedBug(
        name="a lease that another holds is taken",
        find="return self._clock.monotonic() >= self._seen_at + self._duration",
        put="return self._clock.monotonic() >= self._seen_at",
        rules=("lease",),
    ),
    PlantedBug(
        name="an expired watch is not followed by a list",
        find="            self._must_list = True\n            if self._failures == 1:",
        put="            self._must_list = False\n            if self._failures == 1:",
        rules=(
            "closed",
            "waiting",
            "service",
            "ownership",
            "no finalizer is stuck",
            "validity",
            "buffers",
            "static pools",
        ),
    ),
)

_PLACEMENT: Final = (
    PlantedBug(
        name="node selectors of pods are ignored",
        find="self.selector = Requirements.from_labels(spec.node_selector)",
        put="self.selector = Requirements.from_labels({})",
        rules=("placement", "waiting", "service"),
    ),
    PlantedBug(
        name="pods that stay apart are sent to one machine",
        find="self.anti_required = list(anti.",
        put="self.anti_required = [] and list(anti.",
        rules=("placement", "waiting", "service"),
    ),
    PlantedBug(
        name="pods that spread are sent anywhere",
        find="self.spreads = [s for s in spreads if respect or not _is_preference(s)]",
        put='self.spreads = [s for s in spreads if s.when_unsatisfiable != "DoNotSchedule"]',
        rules=("placement", "waiting", "service"),
    ),
)

_COINCIDENCES: Final = (
    PlantedBug(
        name="an eviction without an answer crashes",
        find='code = str(error.code) if isinstance(error, StatusError) else "0"',
        put="code = str(error.code)",
        rules=("health",),
    ),
    PlantedBug(
        name="claims expire at half of their time",
        find="return None if age is None or born is None else born + age",
        put="return None if age is None or born is None else born + age / 2",
        rules=("explained",),
    ),
    PlantedBug(
        name="a launch that was not answered is not tried again",
        find="                raise Requeue(problem) from error\n",
        put="                return\n",
        rules=(
            "launch",
            "waiting",
            "ownership",
            "service",
        ),
    ),
    PlantedBug(
        name="nodes that a killed operator has closed stay closed",
        find="        and node.claim.name not in queued\n",
        put="        and node.claim.name in queued\n",
        rules=(
            "closed",
            "no finalizer is stuck",
        ),
    ),
    PlantedBug(
        name="a static pool is never made smaller",
        find="if len(active) <= wanted:",
        put="if len(active) >= wanted:",
        rules=("static pools",),
    ),
    PlantedBug(
        name="claims that are too old stay",
        find="if moment is None or claim.metadata.deletion_timestamp is not None:",
        put="if moment is None or claim.metadata.deletion_timestamp is None:",
        rules=("explained",),
    ),
    PlantedBug(
        name="interruptions are ignored",
        find="if not drains or claim.metadata.deletion_timestamp is not None:",
        put="if drains or claim.metadata.deletion_timestamp is not None:",
        rules=("interruption",),
    ),
    PlantedBug(
        name="a list does not remove what is gone",
        find="            if key not in keys and not self._ahead_of(stamp, version):",
        put="            if key not in keys and self._ahead_of(stamp, version):",
        rules=(
            "waiting",
            "service",
            "ownership",
            "no finalizer is stuck",
            "health",
            "daemons",
            "replacement",
            "empty",
        ),
    ),
)

_ORDER_AND_TIME: Final = (
    PlantedBug(
        name="the end of a drain trusts the pod cache",
        find="due = self._terminate(node, await self._read_pods(node), gone=gone)",
        put="pass",
        rules=("drain",),
        runs=60,
    ),
    PlantedBug(
        name="grace periods of machines are ten times as long",
        find="return render_time(asked + grace)",
        put="return render_time(asked + 10 * grace)",
        rules=("drain",),
    ),
    PlantedBug(
        name="critical pods are drained first",
        find="first = min(map(_drain_group, waiting), default=None)",
        put="first = max(map(_drain_group, waiting), default=None)",
        rules=("protection",),
    ),
    PlantedBug(
        name="nodes that are not ready do not use up budgets",
        find="if node.is_deleting or not node.is_ready:\n            leaving",
        put="if node.is_deleting:\n            leaving",
        rules=("budgets",),
    ),
    PlantedBug(
        name="nodes that start count for shares of budgets",
        find="if not node.pool or not node.is_initialized or _is_gone(node):",
        put="if not node.pool or _is_gone(node):",
        rules=("budgets",),
    ),
    PlantedBug(
        name="of empty nodes more go than a budget allows",
        find="                left[candidate.pool.name] -= 1\n                found.append(candidate)",
        put="                found.append(candidate)",
        rules=("budgets",),
    ),
    PlantedBug(
        name="drift of static pools does not use up budgets",
        find="        headroom = headroom.after([candidate])\n        room[pool.name] = left - 1",
        put="        room[pool.name] = left - 1",
        rules=("budgets",),
    ),
    PlantedBug(
        name="a window of a budget is open at the wrong side of its hour",
        find="return hit is not None and hit <= now",
        put="return hit is not None and hit >= now",
        rules=("budgets", "empty"),
    ),
    PlantedBug(
        name="nodes that leave are disrupted once more",
        find="(node.is_deleting, DisruptionCode.DELETING",
        put="(False, DisruptionCode.DELETING",
        rules=("health", "replacement", "validity"),
    ),
    PlantedBug(
        name="do-not-disrupt for some time ends at once",
        find="if start is None or (now - start).total_seconds() < seconds:",
        put="if start is None:",
        rules=("validity", "protection"),
    ),
    PlantedBug(
        name="pods that come to a node are not noted",
        find="return last.spec.node_name if bound or ended or leaves else",
        put="return last.spec.node_name if ended or leaves else",
        rules=("validity",),
    ),
    PlantedBug(
        name="pods that must not be disrupted are not looked for at removal",
        find="if reason == DRIFTED and node.claim is not None"
        " and node.claim.spec.termination_grace_period is not None:\n        return",
        put="if reason == DRIFTED and node.claim is not None:\n        return",
        rules=("validity",),
        runs=60,
    ),
    PlantedBug(
        name="drift overrides pods without a grace period",
        find="                and found.claim.spec.termination_grace_period is not None\n            ):\n",
        put="            ):\n",
        rules=("validity",),
    ),
    PlantedBug(
        name="a command whose replacement is gone goes on",
        find='            return "lost"\n',
        put="            continue\n",
        rules=("replacement",),
        runs=60,
    ),
    PlantedBug(
        name="launch and registration share one time limit",
        find="ends = condition_set.since(REGISTERED) + timeouts.registration",
        put="ends = condition_set.since(LAUNCHED) + timeouts.launch / 10",
        rules=("explained",),
    ),
    PlantedBug(
        name="a static pool loses one machine too many",
        find="for claim in active[: len(active) - wanted]",
        put="for claim in active[: len(active) - wanted + 1]",
        rules=("static pools",),
    ),
)

BUGS: Final = (
    *_DRAINING,
    *_BUDGETS,
    *_VALIDITY,
    *_COMMANDS,
    *_MACHINES,
    *_SHELL,
    *_PLACEMENT,
    *_COINCIDENCES,
    *_ORDER_AND_TIME,
)
"""All of them, in the order of the table."""
