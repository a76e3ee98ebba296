"""Launch templates that are not used any longer."""

from collections.abc import Mapping
from typing import Any

from karpenter.cloud.aws.launchtemplate import KEPT_SECONDS, LaunchTemplateProvider
from karpenter.cloud.aws.sdk import ApiResponse
from karpenter_local.virtual import VirtualClock
from tests.unit.cloud.aws.scripted import ScriptedAws, instrumented, virtually

LEFT_BEHIND = {"LaunchTemplates": [{"LaunchTemplateName": "one"}, {"LaunchTemplateName": "two"}]}


def test_a_template_that_turns_out_to_be_gone_is_swept_once() -> None:
    """A launch may find out that a template is gone while it is being deleted; the others go all the same."""

    async def main(clock: VirtualClock) -> list[Any]:
        def delete(parameters: Mapping[str, Any]) -> ApiResponse:
            templates.forget([parameters["LaunchTemplateName"]])
            return {}

        aws = ScriptedAws({"DescribeLaunchTemplates": LEFT_BEHIND, "DeleteLaunchTemplate": delete})
        provider_metrics, _ = instrumented(clock)
        templates = LaunchTemplateProvider(
            aws, cluster="blue", metrics=provider_metrics, monotonic=clock.monotonic
        )
        await templates.load_existing()
        await clock.sleep(KEPT_SECONDS)
        await templates.delete_unused()
        await templates.delete_unused()
        return aws.asked("DeleteLaunchTemplate")

    assert virtually(main) == [{"LaunchTemplateName": "one"}, {"LaunchTemplateName": "two"}]
