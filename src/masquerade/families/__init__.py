"""The families, by the name their configurations have for them."""

from masquerade.families.albert import ALBERT
from masquerade.families.albert_zh import ALBERT_ZH
from masquerade.families.base import Family
from masquerade.families.bert import BERT
from masquerade.families.electra import ELECTRA
from masquerade.families.ernie import ERNIE
from masquerade.families.mpnet import MPNET
from masquerade.families.nezha import NEZHA
from masquerade.families.own import OWN
from masquerade.families.roberta import ROBERTA

FAMILIES: dict[str, Family] = {
    family.name: family for family in (BERT, ROBERTA, ALBERT, ALBERT_ZH, ELECTRA, ERNIE, NEZHA, MPNET, OWN)
}
