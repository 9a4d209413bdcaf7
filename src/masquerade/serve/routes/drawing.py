"""The route that draws masks."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request

from masquerade.serve.failures import documented
from masquerade.serve.layouts import DrawnMask, MaskSettings, draw_mask
from masquerade.serve.replies import LayoutReply
from masquerade.serve.requests import LayoutRequest
from masquerade.serve.service import service_of

router = APIRouter(prefix="/v1", responses=documented(400, 408, 413, 422))


@router.post("/layout", summary="Draw a mask")
async def layout(body: LayoutRequest, request: Request) -> LayoutReply:
    """The tokens of a constructor's layout, and which of them each row sees. No model is needed, so it never waits."""
    most = service_of(request).limits.layout_tokens
    given = body.model_dump(exclude={"constructor", "text"})
    made = await asyncio.to_thread(_drawn, body.constructor, body.text, MaskSettings(**given), most)
    drawn = made[0].drawn
    return LayoutReply(
        constructor=body.constructor, caption=drawn.caption, tokens=list(drawn.columns), kinds=list(drawn.column_kinds),
        fields=made[0].fields, seen=["".join("01"[each] for each in row) for row in drawn.seen], code=made[0].code,
        svg=made[1],
    )  # fmt: skip


def _drawn(name: str, text: str | None, settings: MaskSettings, most: int) -> tuple[DrawnMask, str]:
    made = draw_mask(name, text, settings, most)
    return made, made.svg
