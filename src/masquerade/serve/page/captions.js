// What each mask does, and a sentence to draw it with, in Chinese. In English both come from the service.

const SENTENCE = "猫坐在垫子上";
const CHINESE = { // name → [caption, example]
  bidirectional: ["BERT：每个词元看见所有词元。", SENTENCE],
  causal: ["GPT：每个词元看见自己和前面的词元。", SENTENCE],
  backward: ["反向语言模型：每个词元看见自己和后面的词元。", SENTENCE],
  permuted: ["任意顺序的语言模型：每个词元看见自己，以及在该顺序中排在前面的词元。", SENTENCE],
  prefix: ["UniLM：用单个网络做序列到序列。源文本互相看见；目标文本看见源文本，并逐个看见自己前面的词元。", "猫坐在 | 垫子上"],
  infill: ["GLM：上下文互相看见；空白处逐个词元填写，看见上下文、已填好的空白和自己前面的词元。", "猫坐在暖和的垫子上"],
  two_stream: ["XLNet：先是任意顺序的内容，其后每个要预测的词元有一个查询：它占该词元的位置，只看见顺序中更早的词元，看不见该词元本身。", SENTENCE],
  compensated: ["MPNet：顺序中先已知的词元互相看见，其余词元逐个变为已知，由查询来预测。未知的词元用占位代替，所以每一行都看见句子的全部位置。", SENTENCE],
  pseudo: ["UniLMv2：片段被遮住的句子，所有词元都看见它，像 BERT 那样预测片段。其后是各片段的词元，以及互相看见、只看见更早片段的伪掩码，逐段预测同样的词元。", SENTENCE],
  blocks: ["块扩散：干净的块看见自己和前面的块。其后是带噪声的词元，互相看见，并看见自己那一块之前的干净块。块大小为 1 就是 GPT，等于句长就是掩码扩散。", SENTENCE],
  masked_answer: ["并行阅读：[CLS]、若干 [MASK]、问题、段落，所有词元互相看见。[MASK] 是答案的槽位，一次写出全部答案。", "谁坐着？ | 猫坐在垫子上"],
  shared_passage: ["一次编码段落，回答任意多个问题：段落只看见自己；每个问题连同它的答案槽位是一个分支，看见段落和自己，看不见其他问题。", "猫坐在垫子上 | 谁坐着？ | 在哪里？"],
  pack: ["几个序列放在同一行，没有填充，互相看不见。", "猫坐 | 在 | 垫子上"],
  window: ["局部注意力：每个词元最多看见左右若干个位置。", SENTENCE],
  with_memory: ["Transformer-XL：前一段的词元放在前面，每一行都看见它们，而它们只互相看见。", SENTENCE],
};

/** The caption of a drawn mask in a language. */
export const caption = (drawn, language) => (language === "zh" && CHINESE[drawn.constructor]?.[0]) || drawn.caption;

/** The text that a mask is drawn with, where none is given. */
export const example = (name, usual, language) => (language === "zh" && CHINESE[name]?.[1]) || usual;
