// All words of the page, in English and Chinese.
import { get } from "./state.js";

const WORDS = {
  en: {
    skip: "Skip to the content", tagline: "small language models under any mask", ask: "Ask", collection: "Collection",
    masks: "Masks", write: "Write", fill: "Fill", memory: "Memory", token: "Token", useToken: "Use",
    tokenWhy: "This service needs a token. It is kept until this tab is closed.", language: "中文", light: "Light", dark: "Dark",
    auto: "Auto", document: "Document", documentHint: "Paste a text, or drop a file here (txt, md, html, pdf, docx, csv, json).",
    open: "Open a file", example: "Example", edit: "Edit the text", question: "Question", askButton: "Ask", decoder: "Decoder",
    answers: "Answers", noQuestions: "Ask as many questions as you like. The text is read once.", none: "No answer in this text",
    confidence: "Confidence", others: "Other answers", readBefore: "read before", windows: "windows", ms: "ms", tokens: "tokens",
    compare: "Compare decoders", compareHint: "Which token is written in which pass of the network.", passes: "passes", 
    replay: "Replay", answer: "Answer", partsShown: "Parts that were not read are pale.", page: "page", line: "line",
    paragraph: "paragraph", item: "item", search: "Search", query: "Question or words", passages: "passages", files: "documents",
    found: "Found", noFound: "Nothing found", mask: "Mask", text: "Text", textInParts: "Text; its parts are separated by |", block: "Block size",
    seed: "Order", known: "Known tokens", prefix: "Prefix length", slots: "Answer slots", width: "Window", memorySize: "Memory",
    questions: "Questions", exportSvg: "Export SVG", table: "As a table", code: "The constructor", sees: "sees", row: "Token",
    kind: "Kind", rank: "Rank", horizon: "Horizon", hover: "Point at a row, or use the arrow keys, to see what its token sees.",
    upTo: "Up to {n} tokens.", content: "content", placeholder: "placeholder", queryKind: "query", peer: "peer",
    fillHint: "Put [MASK] where a word is missing.", fillButton: "Fill", writeHint: "A text to write a title or summary for.",
    writeButton: "Write", prompt: "Prompt", generate: "Continue", stop: "Stop", method: "Method", newTokens: "New tokens",
    noModel: "This service was started without one. Start it with", facts: "Facts", subject: "Subject", relation: "Relation",
    objects: "Objects", change: "Change", changed: "Changed.", copyKept: "Changes are made to a copy and end with the service.",
    before: "Before", now: "Now", factsRead: "Facts that were read", noFact: "no fact", show: "Show", entity: "Entity",
    model: "Model", unshared: "This text is not in the address of the page: a shared link has the question alone.",
    cited: "{n}, ", score: "score", tokenWrong: "The service refused that token.",
    reading: "Reading the file …", theme: "Theme: ", relative: "Of the best", placed: "{unit} {n}", tokensByPass: "Tokens (pass)",
    memoryHint: "Fill a gap, then change a fact beside it: the answer follows the fact.", allFacts: "empty: all facts",
    "decoder.parallel": "the answer is marked in one pass", "decoder.blocks": "a few tokens in each pass",
    "decoder.autoregressive": "a token in each pass", "decoder.rerank": "the best spans are scored token by token",
    "decoder.mixture": "of parallel and autoregressive",
    "mask.bidirectional": "BERT", "mask.causal": "GPT", "mask.backward": "reversed", "mask.permuted": "any order",
    "mask.prefix": "UniLM", "mask.infill": "GLM", "mask.two_stream": "XLNet", "mask.compensated": "MPNet",
    "mask.pseudo": "UniLMv2", "mask.blocks": "block diffusion", "mask.masked_answer": "parallel reader",
    "mask.shared_passage": "shared passage", "mask.pack": "packing", "mask.window": "local attention", "mask.with_memory": "Transformer-XL",
  },
  zh: {
    skip: "跳到正文", tagline: "任意掩码下的小型语言模型", ask: "提问", collection: "文库", masks: "掩码", write: "写作", fill: "填空",
    memory: "记忆", token: "令牌", useToken: "使用", tokenWhy: "本服务需要令牌。令牌保存到此标签页关闭为止。", language: "English",
    light: "浅色", dark: "深色", auto: "自动", document: "文档",
    documentHint: "粘贴文本，或把文件拖到这里（txt、md、html、pdf、docx、csv、json）。", open: "打开文件", example: "示例", edit: "编辑文本",
    question: "问题", askButton: "提问", decoder: "解码方式", answers: "回答", noQuestions: "可以连续提问，文本只读一次。", none: "文中没有答案",
    confidence: "置信度", others: "其他答案", readBefore: "已读过", windows: "个窗口", ms: "毫秒", tokens: "个词元", compare: "比较解码方式",
    compareHint: "每个词元在网络的第几遍写出。", passes: "遍数", replay: "重放", answer: "答案", 
    partsShown: "未读的部分以浅色显示。", page: "页", line: "行", paragraph: "段", item: "条", search: "搜索", query: "问题或关键词",
    passages: "个段落", files: "个文档", found: "搜索结果", noFound: "没有找到", mask: "掩码", text: "文本", textInParts: "文本，各部分用 | 分开",
    block: "块大小", seed: "顺序", known: "已知词元", prefix: "前缀长度", slots: "答案槽位", width: "窗口", memorySize: "记忆长度",
    questions: "问题数", exportSvg: "导出 SVG", table: "以表格显示", code: "构造函数", sees: "看见", row: "词元", kind: "类别", rank: "次序",
    horizon: "视界", hover: "指向某一行，或用方向键，查看该词元看见什么。", upTo: "最多 {n} 个词元。", content: "内容", placeholder: "占位",
    queryKind: "查询", peer: "同伴", fillHint: "在缺词处写 [MASK]。", fillButton: "填空", writeHint: "要写标题或摘要的文本。", writeButton: "写作",
    prompt: "开头", generate: "续写", stop: "停止", method: "方法", newTokens: "新词元数", noModel: "服务启动时没有加载这种模型。启动方法：",
    facts: "事实", subject: "主语", relation: "关系", objects: "宾语", change: "修改", changed: "已修改。",
    copyKept: "修改只作用于副本，服务停止后失效。", before: "之前", now: "现在", factsRead: "读到的事实", noFact: "没有事实", show: "显示",
    entity: "实体", model: "模型", unshared: "此文本不在页面地址中，分享的链接只包含问题。",
    cited: "{n}，", score: "得分", tokenWrong: "服务拒绝了该令牌。", reading: "正在读取文件……",
    theme: "主题：", relative: "与最佳相比", placed: "第 {n} {unit}", tokensByPass: "词元（第几遍）",
    memoryHint: "先填空，再修改旁边的事实：答案会随之改变。", allFacts: "留空：全部事实",
    "decoder.parallel": "一遍标出答案", "decoder.blocks": "每遍写几个词元", "decoder.autoregressive": "每遍写一个词元",
    "decoder.rerank": "逐个词元为最佳片段打分", "decoder.mixture": "并行与自回归的混合",
    "mask.bidirectional": "BERT", "mask.causal": "GPT", "mask.backward": "反向", "mask.permuted": "任意顺序",
    "mask.prefix": "UniLM", "mask.infill": "GLM", "mask.two_stream": "XLNet", "mask.compensated": "MPNet",
    "mask.pseudo": "UniLMv2", "mask.blocks": "块扩散", "mask.masked_answer": "并行阅读", "mask.shared_passage": "共享段落",
    "mask.pack": "打包", "mask.window": "局部注意力", "mask.with_memory": "Transformer-XL",
  },
};

export const EXAMPLES = {
  en: {
    text: "The Rosetta Stone is a slab of dark rock with one decree in three scripts: hieroglyphs, Demotic and Greek. "
      + "French soldiers found it in July 1799 while they repaired a fort near the town of Rashid. After the French army "
      + "gave up in 1801, the stone was taken to London, and the British Museum has shown it since 1802.\n\n"
      + "Thomas Young read the name of Ptolemy in it. In 1822 Jean-François Champollion announced in Paris how "
      + "hieroglyphs work: some signs stand for sounds and others for whole words.",
    question: "Who announced how hieroglyphs work?",
  },
  zh: {
    text: "都江堰位于四川成都平原西部的岷江上。公元前256年左右，秦国蜀郡太守李冰主持修建了这座水利工程。\n\n"
      + "工程由三部分组成：鱼嘴把江水分成内江和外江，飞沙堰排走泥沙，宝瓶口控制进水量。宝瓶口宽约二十米。"
      + "两千多年来，都江堰一直灌溉着成都平原，2000年被列入世界文化遗产名录。",
    question: "都江堰是谁主持修建的？",
  },
};

export const language = () => get("lang") || (navigator.language.startsWith("zh") ? "zh" : "en");
export const t = (name) => WORDS[language()][name] ?? WORDS.en[name] ?? name;
/** Where something is: "page 3", "第 3 页". */
export const placed = (unit, number) => t("placed").replace("{unit}", t(unit)).replace("{n}", number);
export const names = () => Object.keys(WORDS).map((each) => Object.keys(WORDS[each]));

/** Write the words of the chosen language into all elements that name one. */
export function translate(root = document) {
  document.documentElement.lang = language() === "zh" ? "zh-CN" : "en";
  for (const element of root.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
}
