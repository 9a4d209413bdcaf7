"""Write the two Word files of examples/own, each from the paragraphs below: ``python examples/own/make_docx.py``."""

# ruff: noqa: E501  (a paragraph is a line)

from __future__ import annotations

import zipfile
from html import escape
from pathlib import Path

TYPES = (
    '<?xml version="1.0" encoding="UTF-8"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
LINKS = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Target="word/document.xml" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"/></Relationships>'
)
SPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"

LEASE = """Lease of a workshop
between Corbel Estates Ltd., landlord, and Amina Yusuf, tenant.
1. The landlord lets the ground-floor workshop at 8 Ropewalk, Dunmore, with the yard behind it. The cellar is not included.
2. The lease begins on 1 September 2023 and runs for three years. It then goes on from year to year unless one side gives six months' notice in writing.
3. The rent is 875 pounds a month, due on the fifth. It rises once a year with the index of consumer prices, but never by more than four percent.
4. The tenant pays a deposit of two months' rent, which is held by Garnet Trust.
5. The tenant may run a ceramics studio. Kilns of up to 12 kilowatts are allowed; gas kilns are not.
6. The landlord repairs roof, outer walls and drains. The tenant repairs windows, and has the fire extinguishers checked every two years.
7. No part may be let to others without consent, except for courses of up to ten people.
Signed at Dunmore on 11 August 2023; witness: Peter Solis."""
CONTRACT = """房屋租赁合同
出租方（甲方）：陆文彬；承租方（乙方）：何晓芸。
第一条　甲方将位于临河区杨柳巷十七号二楼的房屋租给乙方居住，建筑面积六十八平方米。地下储物间不在出租范围之内。
第二条　租期两年，自2024年3月1日起，至2026年2月28日止。任何一方不再续租，须提前六十天书面通知对方。
第三条　月租金两千六百元，每季度支付一次，于季度首月五日前汇入甲方在青江银行的账户。
第四条　乙方支付押金五千二百元。合同期满，房屋验收合格后十日内无息退还。
第五条　水费、电费、燃气费由乙方承担，物业管理费由甲方承担。
第六条　未经甲方同意，乙方不得转租，不得饲养大型犬。养猫须事先告知。
第七条　屋顶漏水、外墙脱落由甲方维修；门锁、灯具损坏由乙方维修。
本合同一式三份，见证人为社区干部魏国强。"""


def write_docx(text: str, path: Path) -> None:
    """Write a text as a Word file, a paragraph for each of its lines; always the same bytes."""
    lines = "".join(f"<w:p><w:r><w:t>{escape(line)}</w:t></w:r></w:p>" for line in text.split("\n"))
    body = f'<?xml version="1.0" encoding="UTF-8"?><w:document xmlns:w="{SPACE}"><w:body>{lines}</w:body></w:document>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, part in (("[Content_Types].xml", TYPES), ("_rels/.rels", LINKS), ("word/document.xml", body)):
            file.writestr(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), part)


if __name__ == "__main__":
    here = Path(__file__).parent
    write_docx(LEASE, here / "en" / "lease.docx")
    write_docx(CONTRACT, here / "zh" / "contract.docx")
