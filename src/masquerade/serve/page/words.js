// All words of the page, in English and Chinese.
import { get } from "./state.js";

const WORDS = {
  en: {
    skip: "Skip to the content", tagline: "small language models under any mask", ask: "Ask",
    collection: "Collection", masks: "Masks", write: "Write", fill: "Fill", memory: "Memory", token: "Token",
    useToken: "Use", tokenWhy: "This service needs a token. It is kept until this tab is closed.",
    tokenWrong: "The service refused that token.", language: "中文", theme: "Theme: ", light: "Light", dark: "Dark",
    auto: "Auto", copy: "Copy ", share: "link", copied: "Copied", close: "Close",
    "intro.ask": "Give it a text, ask in your own words, and see the answer marked where it stands.",
    "intro.collection": "Ask all your documents at once. Every answer names the passage that it comes from.",
    "intro.masks": "A mask says which tokens of a text a network may look at. That alone makes it a BERT, a GPT or a reader. Choose one and see.",
    "intro.write": "Titles and summaries for a text, and texts that are continued while you watch.",
    "intro.fill": "A text with gaps, and the words that a model would put there.",
    "intro.memory": "This network looks facts up while it reads. Change a fact, and its answer changes without training.",
    document: "Document", documentHint: "Paste a text, or drop a file here (txt, md, html, pdf, docx, csv, json).",
    open: "Open a file", example: "Example", edit: "Edit the text", reading: "Reading the file …",
    question: "Question", askButton: "Ask", decoder: "How the answer is found", answers: "Answers", answer: "Answer",
    noQuestions: "Ask as many questions as you like. The text is read once.", tryExample: "Try it with an example",
    none: "No answer in this text",
    noText: "There is no text yet; paste one, or open a file.", confidence: "Confidence", others: "Other answers", readAll: "text read before",
    readSome: "{n} of {m} parts read before", tokens: "tokens", ms: "ms", seconds: "s", compare: "Compare decoders",
    compareHint: "The same question, answered in three ways. The small number says in which pass of the network a token was written.",
    comparePoor: "The time and the confidence of each stand beside it. A reader that was trained to mark answers writes poorer ones.",
    passes: "Passes", replay: "Replay", partsShown: "Parts that were not read are pale.",
    unshared: "This text is not in the address of the page: a shared link has the question alone.", page: "page",
    line: "line", paragraph: "paragraph", item: "item", placed: "{unit} {n}", query: "Question or words",
    search: "Search", passages: "passages", files: "documents", found: "Found",
    readFor: "Passages that were read for it", noFound: "Nothing found. Try other words.",
    noSearch: "The answer appears here, with the passages that were read.", cited: "{n}, ", score: "fit",
    mask: "Mask", text: "Text", textInParts: "Text; its parts are separated by |", block: "Block size", seed: "Order",
    known: "Known tokens", prefix: "Prefix length", slots: "Answer slots", width: "Window", memorySize: "Memory",
    questions: "Questions", exportSvg: "Export SVG", table: "As a table", code: "The few lines that make this mask",
    sees: "sees", seesHead: "Sees", row: "Token", kind: "Kind", rank: "Rank", horizon: "Horizon",
    ranks: "Rank: when a token becomes known. Horizon: the latest rank that a row sees.",
    hover: "Each row is a token; its coloured squares are the tokens that it sees. Point at a row, or use the arrow keys.",
    upTo: "Up to {n} tokens.", content: "content", placeholder: "placeholder", queryKind: "query", peer: "peer",
    "about.content": "a token of the text", "about.placeholder": "stands where a token is not known yet",
    "about.query": "predicts a token without seeing it", "about.peer": "predicts together with its neighbours",
    fillHint: "Text, with [MASK] where a word is missing", insertMask: "Insert [MASK]", fillButton: "Fill",
    noFilled: "The most probable words for each gap appear here.", filled: "Words for each gap", word: "Word",
    writeHint: "Text to write a title or summary for", writeButton: "Write",
    noWritten: "What the model writes appears here, the best first.", written: "Written",
    relative: "The bars: how probable each one is beside the best.", prompt: "Beginning", generate: "Continue",
    noGenerated: "The text grows here while it is written.", continued: "Continued", stop: "Stop", method: "Method",
    newTokens: "New tokens", model: "Model",
    noModel: "This service was started without a model for this.",
    "missing.collection": "First make a collection of your files, then name it when the service is started:",
    "missing.fill": "Any BERT-like model can do this, from a folder or from the Hugging Face hub:",
    "missing.write": "A title writer comes with Masquerade; others are trained with 'masquerade train writer'. A GPT-like model continues texts:",
    "missing.memory": "Build a knowledge base from facts, train a network that reads it, then start the service with both:",
    facts: "Facts", subject: "Subject", relation: "Relation", objects: "Object", change: "Change",
    changed: "Changed.", copyKept: "Changes are made to a copy and end with the service.", before: "Before",
    now: "Now", factsRead: "Facts that were read", fact: "Fact", noFact: "no fact", show: "Show",
    entity: "Facts about", allFacts: "a name; empty: all facts",
    noRecalled: "Fill the gap first. Then change a fact, and compare.",
    "decoder.parallel": "marked in the text, in one pass", "decoder.blocks": "written, a few tokens in each pass",
    "decoder.autoregressive": "written, a token in each pass", "decoder.rerank": "the best places, scored token by token",
    "decoder.mixture": "written, parallel and autoregressive mixed",
    "mask.bidirectional": "BERT", "mask.causal": "GPT", "mask.backward": "reversed", "mask.permuted": "any order",
    "mask.prefix": "UniLM", "mask.infill": "GLM", "mask.two_stream": "XLNet", "mask.compensated": "MPNet",
    "mask.pseudo": "UniLMv2", "mask.blocks": "block diffusion", "mask.masked_answer": "parallel reader",
    "mask.shared_passage": "shared passage", "mask.pack": "packing", "mask.window": "local attention", "mask.with_memory": "Transformer-XL",
  },
  zh: {
    skip: "跳到正文", tagline: "任意掩码下的小型语言模型", ask: "提问", collection: "文库", masks: "掩码", write: "写作", fill: "填空",
    memory: "记忆", token: "令牌", useToken: "使用", tokenWhy: "本服务需要令牌。令牌保存到此标签页关闭为止。", tokenWrong: "服务拒绝了该令牌。",
    language: "English", theme: "主题：", light: "浅色", dark: "深色", auto: "自动", copy: "复制", share: "链接", copied: "已复制", close: "关闭",
    "intro.ask": "给出一段文本，用自己的话提问，答案会标在原文中。", "intro.collection": "同时向所有文档提问，每个答案都注明出自哪一段。",
    "intro.masks": "掩码规定网络可以看见文本中的哪些词元。仅凭这一点，同一个网络就成为 BERT、GPT 或阅读模型。选一个看看。", "intro.write": "为文本写标题或摘要，或让模型把文本续写下去。",
    "intro.fill": "给出有空缺的文本，看模型会填入哪些词。", "intro.memory": "这个网络边读边查事实。修改一条事实，不用训练，答案就会改变。", document: "文档",
    documentHint: "粘贴文本，或把文件拖到这里（txt、md、html、pdf、docx、csv、json）。", open: "打开文件", example: "示例", edit: "编辑文本",
    reading: "正在读取文件……", question: "问题", askButton: "提问", decoder: "答案的得出方式", answers: "回答", answer: "答案",
    noQuestions: "可以连续提问，文本只读一次。", tryExample: "用示例试一试", none: "文中没有答案",
    noText: "还没有文本，请粘贴一段或打开文件。", confidence: "置信度", others: "其他答案",
    readAll: "文本已读过", readSome: "{m} 部分中 {n} 部分已读过", tokens: "个词元", ms: "毫秒", seconds: "秒", compare: "比较解码方式",
    compareHint: "同一个问题，三种回答方式。小数字表示该词元在网络的第几遍写出。", comparePoor: "各方式的时间和置信度列在旁边。专为标出答案训练的阅读模型，写出的答案会差一些。",
    passes: "遍数", replay: "重放", partsShown: "未读的部分以浅色显示。", unshared: "此文本不在页面地址中，分享的链接只包含问题。", page: "页", line: "行",
    paragraph: "段", item: "条", placed: "第 {n} {unit}", query: "问题或关键词", search: "搜索", passages: "个段落", files: "个文档",
    found: "搜索结果", readFor: "为此读过的段落", noFound: "没有找到，请换个说法。", noSearch: "答案和读过的段落会显示在这里。", cited: "{n}，",
    score: "相关度", mask: "掩码", text: "文本", textInParts: "文本，各部分用 | 分开", block: "块大小", seed: "顺序", known: "已知词元",
    prefix: "前缀长度", slots: "答案槽位", width: "窗口", memorySize: "记忆长度", questions: "问题数", exportSvg: "导出 SVG",
    table: "以表格显示", code: "构造此掩码的几行代码", sees: "看见", seesHead: "看见", row: "词元", kind: "类别", rank: "次序", horizon: "视界",
    ranks: "次序：词元何时变为已知。视界：该行最远看到哪个次序。", hover: "每一行是一个词元，彩色方格是它看见的词元。指向某一行，或用方向键查看。", upTo: "最多 {n} 个词元。",
    content: "内容", placeholder: "占位", queryKind: "查询", peer: "同伴", "about.content": "文本中的词元",
    "about.placeholder": "代替还未知的词元", "about.query": "预测一个词元，但看不见它", "about.peer": "与邻近的一起预测",
    fillHint: "文本，缺词处写 [MASK]", insertMask: "插入 [MASK]", fillButton: "填空", noFilled: "每个空缺最可能的词会显示在这里。",
    filled: "每个空缺的词", word: "词", writeHint: "要写标题或摘要的文本", writeButton: "写作", noWritten: "模型写出的文本会显示在这里，最好的在前。",
    written: "结果", relative: "横条表示与最佳结果相比的可能性。", prompt: "开头", generate: "续写", noGenerated: "续写的文本会在这里逐步出现。",
    continued: "续写结果", stop: "停止", method: "方法", newTokens: "新词元数", model: "模型", noModel: "服务启动时没有加载这种模型。",
    "missing.collection": "先把文件做成文库，再在启动服务时给出它：", "missing.fill": "任何类似 BERT 的模型都可以，来自文件夹或 Hugging Face：",
    "missing.write": "Masquerade 自带英文标题模型，其他的用 'masquerade train writer' 训练。类似 GPT 的模型可以续写：",
    "missing.memory": "用事实建立知识库，训练读取它的网络，再用两者启动服务：", facts: "事实", subject: "主语", relation: "关系", objects: "宾语",
    change: "修改", changed: "已修改。", copyKept: "修改只作用于副本，服务停止后失效。", before: "之前", now: "现在", factsRead: "读到的事实",
    fact: "事实", noFact: "没有事实", show: "显示", entity: "关于谁的事实", allFacts: "名称；留空：全部事实", noRecalled: "先填空，再修改一条事实，然后比较。",
    "decoder.parallel": "一遍在原文中标出", "decoder.blocks": "写出，每遍几个词元", "decoder.autoregressive": "写出，每遍一个词元",
    "decoder.rerank": "为最佳片段逐词元打分", "decoder.mixture": "写出，并行与自回归混合",
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
/** How long something took: "87 ms", "1.2 s". */
export const duration = (milliseconds) => (milliseconds < 1000 ? `${milliseconds.toFixed(0)} ${t("ms")}`
  : `${(milliseconds / 1000).toFixed(1)} ${t("seconds")}`);
/** Where something is: "page 3", "第 3 页". */
export const placed = (unit, number) => t("placed").replace("{unit}", t(unit)).replace("{n}", number);
export const names = () => Object.keys(WORDS).map((each) => Object.keys(WORDS[each]));

/** Write the words of the chosen language into all elements that name one. */
export function translate(root = document) {
  document.documentElement.lang = language() === "zh" ? "zh-CN" : "en";
  for (const element of root.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
}
