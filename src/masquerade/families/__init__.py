"""The families, by the name their configurations have for them."""

from masquerade.families.albert import ALBERT
from masquerade.families.albert_zh import ALBERT_ZH
from masquerade.families.bart import BART, PEGASUS
from masquerade.families.base import Family
from masquerade.families.bert import BERT
from masquerade.families.deberta import DEBERTA
from masquerade.families.distilbert import DISTILBERT
from masquerade.families.electra import ELECTRA
from masquerade.families.ernie import ERNIE
from masquerade.families.glm import GLM
from masquerade.families.gpt2 import GPT2
from masquerade.families.mpnet import MPNET
from masquerade.families.nezha import NEZHA
from masquerade.families.own import MASS, OWN, PALM
from masquerade.families.roberta import ROBERTA, XLM_ROBERTA
from masquerade.families.roformer import ROFORMER
from masquerade.families.t5 import MT5, T5
from masquerade.families.unilm import UNILM
from masquerade.families.xlnet import TRANSFORMER_XL, XLNET

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        *(BERT, ROBERTA, XLM_ROBERTA, ALBERT, ALBERT_ZH, ELECTRA, ERNIE, NEZHA, ROFORMER, MPNET, UNILM),
        *(DISTILBERT, DEBERTA),
        *(GPT2, GLM, XLNET, TRANSFORMER_XL),
        *(T5, MT5, BART, PEGASUS, MASS, PALM),
        OWN,
    )
}
