#!/usr/bin/env bash
# The tour of docs/tutorials/tour.md as one script: an empty account, an installation, machines that come and
# go, and an empty account again. It needs kubectl and `pip install './packages/karpenter-local[aws]'`, and no account.
# A test holds it against the page.
set -euo pipefail

eval $(karpenter local up --provider aws --bare --cluster-name blue --kubernetes 1.31 --node-group main,type=m5.large,count=2 --instance-types c5.large,c5.xlarge,m5.large,m5.xlarge,r5.large)
kubectl get nodes
karpenter install -c blue --naming eksdemo --consolidate-after 10s --dry-run
karpenter local aws calls --changes
karpenter install -c blue --naming eksdemo --consolidate-after 10s --yes
karpenter install -c blue --naming eksdemo --consolidate-after 10s --check
karpenter get application -c blue
karpenter example inflate -c blue --replicas 10 --spread --dry-run
karpenter example inflate -c blue --replicas 10 --spread
kubectl -n inflate rollout status deploy/inflate --timeout=120s
karpenter get ec2-instance -c blue
kubectl -n inflate scale deploy/inflate --replicas 5
until karpenter get ec2 -c blue | grep -q terminated; do sleep 5; done
karpenter get ec2 -c blue
karpenter get iam-role --search karpenter
karpenter get iam-policy --role eksdemo.blue.karpenter.karpenter
karpenter get iam-policy --role eksdemo.blue.karpenter.karpenter -o yaml
karpenter get iam-policy --role KarpenterNodeRole-blue
karpenter get sqs-queue
karpenter get sqs-queue karpenter-blue -o yaml
karpenter get event-rule karpenter
karpenter get event-rule karpenter-blue-InstanceStateChange -o yaml
karpenter local aws interrupt $(kubectl get nodeclaims -o jsonpath='{.items[0].status.nodeName}')
until kubectl get events -A | grep -q SpotInterrupted; do sleep 1; done
kubectl -n inflate rollout status deploy/inflate --timeout=120s
kubectl patch nodepool default --type merge -p '{"spec":{"template":{"metadata":{"labels":{"team":"blue"}}}}}'
until kubectl get nodes -l team=blue | grep -qw Ready; do sleep 1; done
kubectl get nodes -L team,karpenter.sh/capacity-type
kubectl -n inflate scale deploy/inflate --replicas 0
until [ -z "$(kubectl get nodeclaims -o name)" ]; do sleep 2; done
kubectl get nodes
karpenter example inflate -c blue --delete
karpenter uninstall -c blue --yes
karpenter local down
