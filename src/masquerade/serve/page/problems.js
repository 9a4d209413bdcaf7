// What is wrong, in Chinese, by the type of the error. In English the service says it.
import { language } from "./words.js";

const CHINESE = {
  malformed_json: "请求不是有效的 JSON。", wrong_host: "本服务不接受这个主机名。", unauthorized: "令牌缺失或不正确。",
  unknown_name: "没有这个名称。", unknown_path: "没有这个地址。", method_not_allowed: "此地址不支持这种请求。", timeout: "超过了时间限制，请缩短内容。",
  too_large: "内容太长，超过了限制。", invalid_request: "有一项填写不正确。", invalid_input: "无法使用这段内容。",
  overloaded: "服务繁忙，请稍后再试。", internal: "服务内部出错，详情见其日志。", not_ready: "模型仍在加载，请稍候。",
  stopping: "服务正在停止。", unreachable: "无法连接服务，请确认它仍在运行。",
};

/** A sentence for people; in Chinese with what the service said behind it. */
export function problem(error) {
  const said = error.message || String(error);
  const chinese = language() === "zh" && CHINESE[error.kind];
  return chinese ? `${chinese}（${said}）` : said;
}
