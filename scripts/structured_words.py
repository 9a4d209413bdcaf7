"""The words of scripts/structured_questions.py: domains, their fields, and what values are made of."""

# ruff: noqa: SIM905  (lists of words are shorter as text)

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Field:
    """A field of an item: how texts name it, how people ask for it ({} is the item), how sentences state it ({} is the
    item, then the value), and patterns of values."""

    labels: tuple[str, ...]
    questions: tuple[str, ...]
    sentences: tuple[str, ...]
    patterns: tuple[str, ...]


@dataclass(frozen=True)
class Domain:
    """Items of one kind with their fields, and how texts about them begin and end."""

    names: tuple[str, ...]  # of the column of items
    items: list[str]
    fields: list[Field]
    letters: list[tuple[str, str]]  # the beginning and the end of a letter
    colons: tuple[str, ...] = (": ", " – ", " = ")
    space: str = " "


WORDS: dict[str, list[str]] = {
    "first": "Ada Bruno Carla Deepa Emil Fatima Greta Hugo Ines Jonas Keiko Liam Mara Nadia Oskar Priya Quentin Rosa "
    "Samir Tove Ursula Viktor Wendy Yusuf Zora Tomas Helen Marcus Aisha Daniel".split(),
    "last": "Abbott Berg Castro Dahl Evans Fischer Garcia Haddad Ivanov Jensen Kowalski Lindqvist Moreau Novak Okafor "
    "Petrov Quinn Rossi Schmidt Tanaka Ueda Vargas Walsh Yilmaz Zhang Harper Singh Osei Brandt".split(),
    "city": "Lisbon Tromsø Leeds Porto Kraków Austin Nairobi Osaka Lyon Ghent Tallinn Bergen Quito Perth Izmir "
    "Cork Halifax Basel Pune Dakar".split(),
    "street": ["Mill Lane", "Harbour Road", "Station Street", "Elm Avenue", "Bridge Street", "Park Row", "High Street"],
    "month": "January February March April May June July August September October November December".split(),
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "colour": "red blue green black white silver grey yellow brown orange".split(),
    "material": "oak steel cotton glass wool plastic leather bamboo aluminium clay".split(),
    "firm": "Norden Tools,Brightwater Ltd,Acme Supplies,Kestrel Foods,Delta Parts,Holm & Sons,Alba Textiles".split(","),
    "domain": "example.org mail.test office.example shop.test works.example".split(),
    "role": "accountant,night manager,head gardener,lab assistant,driver,translator,team lead,caretaker".split(","),
    "room": "Hall B,Room 12,the old library,the north wing,Studio 3,the main tent,Room 204,the canteen".split(","),
    "level": "debug info warning error off on true false strict relaxed".split(),
    "unit": "seconds minutes hours days".split(),
    "path": "/var/data /tmp/cache ./logs ~/backup /srv/files config/local.json".split(),
    "姓": "王 李 张 刘 陈 杨 赵 黄 周 吴 徐 孙 胡 朱 高 林 何 郭 马 罗".split(),
    "名": "明 华 丽 强 芳 军 敏 静 伟 娟 建国 小红 志远 雨桐 子涵 海燕 文博 思雨 玉兰 浩然".split(),
    "城市": "北京 上海 杭州 成都 西安 南京 武汉 长沙 青岛 厦门 昆明 哈尔滨 苏州 桂林".split(),
    "路": "中山路 人民路 解放街 文化路 滨江大道 学院路 长安街 建设路".split(),
    "颜色": "红色 蓝色 绿色 黑色 白色 银色 灰色 黄色 棕色".split(),
    "材料": "橡木 不锈钢 纯棉 玻璃 羊毛 塑料 牛皮 竹子 铝合金 陶土".split(),
    "公司": "远航工具有限公司 清泉食品厂 华光电子 东方纺织 百草园药业 新星配件公司".split(),
    "职务": "会计 夜班经理 园艺师 实验员 司机 翻译 组长 门卫".split(),
    "房间": "二号厅 302室 旧图书馆 北楼 三号录音室 大礼堂 食堂".split(),
    "星期": "周一 周二 周三 周四 周五 周六 周日".split(),
}

PERSON = ("{first} {last}",)
DATE = ("{1-28} {month} {1998-2026}", "{month} {1-28}, {1998-2026}", "{1998-2026}-{01-12}-{01-28}", "{1-28} {month}")
MONEY = ("€{2-90}.{10-99}", "${3-950}", "{4-800} euros", "£{1-60}.{10-99}", "{10-99},{100-999} USD")
MAIL = ("{first}.{last}@{domain}", "info@{domain}", "{last}{10-99}@{domain}")
PHONE = ("+{1-99} {200-999} {1000-9999}", "0{10-99}-{100000-999999}", "555-{1000-9999}")
HOURS = ("{7-11}:{00-30} to {13-20}:{00-45}", "{8-10} am – {4-9} pm", "{6-9}–{16-21}")

GOODS = Domain(
    ("item", "product", "Article", "name"),
    "folding chair,desk lamp,rain jacket,garden hose,coffee mill,wall clock,tent,bicycle pump,rice cooker,hand drill,"
    "picnic blanket,kettle,wool scarf,step ladder,water bottle,bread "
    "knife,tool box,yoga mat,paint roller,head torch".split(","),
    [
        Field(
            ("price", "Price", "cost"),
            ("How much does the {} cost?", "What is the price of the {}?", "How expensive is the {}?"),
            ("The {} is sold for {}.", "We charge {1} for the {0}."),
            MONEY,
        ),
        Field(
            ("weight", "Weight", "mass"),
            ("How heavy is the {}?", "What does the {} weigh?", "What is the weight of the {}?"),
            ("The {} weighs {}.", "At {1}, the {0} is easy to carry."),
            ("{1-40} kg", "{100-950} g", "{1-9}.{1-9} kg"),
        ),
        Field(
            ("colour", "Colour", "color"),
            ("What colour is the {}?", "Which colour does the {} come in?"),
            ("The {} comes in {}.",),
            ("{colour}", "dark {colour}", "{colour} and {colour}"),
        ),
        Field(
            ("material", "made of", "Material"),
            ("What is the {} made of?", "Which material is used for the {}?"),
            ("The {} is made of {}.",),
            ("{material}", "{material} and {material}", "recycled {material}"),
        ),
        Field(
            ("supplier", "Supplier", "maker"),
            ("Who supplies the {}?", "Which company makes the {}?", "From whom do we get the {}?"),
            ("The {} is supplied by {}.", "{1} delivers the {0}."),
            ("{firm}",),
        ),
        Field(
            ("in stock", "stock", "quantity"),
            ("How many of the {} are in stock?", "How many pieces of the {} are left?"),
            ("There are {1} pieces of the {0} left.",),
            ("{2-900}",),
        ),
    ],
    [
        ("Dear sales team,\n\nhere is the list you asked for. ", "\n\nKind regards,\nthe warehouse\n"),
        ("Notes from the stock check\n\n", "\nThe next check is in spring.\n"),
    ],
)
STAFF = Domain(
    ("name", "person", "Employee"),
    [f"{first} {last}" for first, last in zip(WORDS["first"], WORDS["last"], strict=False)],
    [
        Field(
            ("role", "position", "Job"),
            ("What is {}'s job?", "What position does {} hold?", "What does {} work as?"),
            ("{} works as {}.", "{0} is our {1}."),
            ("{role}",),
        ),
        Field(
            ("e-mail", "Email", "mail"),
            ("What is the e-mail address of {}?", "How can I write to {}?", "Where do I send an e-mail to {}?"),
            ("You can write to {} at {}.",),
            MAIL,
        ),
        Field(
            ("phone", "Tel.", "telephone"),
            ("What is {}'s phone number?", "Under which number can {} be called?"),
            ("{}'s telephone number is {}.", "Call {0} at {1}."),
            PHONE,
        ),
        Field(
            ("since", "start date", "joined"),
            ("When did {} join?", "Since when has {} worked here?", "When did {} start?"),
            ("{} joined on {}.", "{0} has been with us since {1}."),
            DATE,
        ),
        Field(
            ("office", "room", "desk"),
            ("Where is {}'s office?", "In which room does {} sit?", "Where can {} be found?"),
            ("{} can be found in {}.",),
            ("{room}",),
        ),
        Field(
            ("manager", "reports to"),
            ("Who is {}'s manager?", "Whom does {} report to?"),
            ("{} reports to {}.",),
            PERSON,
        ),
    ],
    [
        ("To all,\n\nsome changes in the team. ", "\n\nBest wishes\nthe office\n"),
        ("Minutes of the meeting\n\n", "\nThe meeting ended at noon.\n"),
    ],
)
EVENTS = Domain(
    ("event", "Event", "what"),
    "spring concert,book fair,night run,chess evening,summer school,open day,film week,harvest market,poetry reading,"
    "robot workshop,choir rehearsal,flea market,rowing regatta,cooking class,science slam".split(","),
    [
        Field(
            ("date", "Date", "when"),
            ("When is the {}?", "On what date does the {} take place?", "What day is the {}?"),
            ("The {} takes place on {}.", "Join us on {1} for the {0}."),
            DATE,
        ),
        Field(
            ("place", "venue", "where"),
            ("Where is the {} held?", "Where does the {} take place?", "What is the venue of the {}?"),
            ("The {} is held in {}.",),
            ("{room}", "{city}", "{street} {1-90}, {city}"),
        ),
        Field(
            ("time", "hours", "Begins"),
            ("At what time does the {} begin?", "What are the hours of the {}?"),
            ("The {} runs from {}.",),
            HOURS,
        ),
        Field(
            ("fee", "ticket", "admission"),
            ("How much is a ticket for the {}?", "What does admission to the {} cost?"),
            ("Admission to the {} is {}.", "A ticket for the {0} costs {1}."),
            (*MONEY, "free"),
        ),
        Field(
            ("organiser", "contact", "led by"),
            ("Who organises the {}?", "Who is in charge of the {}?", "Who leads the {}?"),
            ("The {} is organised by {}.", "{1} is in charge of the {0}."),
            (*PERSON, "{firm}"),
        ),
        Field(
            ("seats", "places", "capacity"),
            ("How many people can attend the {}?", "How many seats does the {} have?"),
            ("There are {1} seats for the {0}.",),
            ("{10-600}",),
        ),
    ],
    [
        ("Dear members,\n\nour programme is ready. ", "\n\nWe look forward to seeing you.\n"),
        ("Programme\n\n", "\nChanges are possible.\n"),
    ],
)
SERVICES = Domain(
    ("service", "Section", "module"),
    "backup,mailer,search index,login,report export,image cache,payment,scheduler,file "
    "watcher,proxy,archive,database".split(","),
    [
        Field(
            ("timeout", "time limit", "timeout"),
            ("What is the timeout of the {}?", "After how long does the {} give up?"),
            ("The {} gives up after {}.",),
            ("{2-90} {unit}", "{5-900}"),
        ),
        Field(
            ("attempts", "tries", "retries"),
            ("How many times does the {} retry?", "How many retries does the {} make?"),
            ("The {0} tries {1} times.",),
            ("{1-12}",),
        ),
        Field(
            ("port", "TCP port", "port"),
            ("Which port does the {} use?", "On what port does the {} listen?"),
            ("The {} listens on port {}.",),
            ("{1024-65535}",),
        ),
        Field(
            ("log level", "logging", "log_level"),
            ("What is the log level of the {}?", "How is logging set for the {}?"),
            ("Logging of the {} is set to {}.",),
            ("{level}",),
        ),
        Field(
            ("folder", "directory", "path"),
            ("In which folder does the {} keep its files?", "Where does the {} store its data?"),
            ("The {} keeps its files in {}.",),
            ("{path}",),
        ),
        Field(
            ("owner", "maintainer", "owner"),
            ("Who maintains the {}?", "Who is responsible for the {}?"),
            ("The {} is maintained by {}.",),
            (*PERSON, *MAIL),
        ),
    ],
    [("# Operations handbook\n\n", "\nAsk before you change anything.\n"), ("Release notes\n\n", "\n")],
)

ZH_PERSON = ("{姓}{名}",)
ZH_DATE = ("{1998-2026}年{1-12}月{1-28}日", "{1-12}月{1-28}日", "{1998-2026}-{01-12}-{01-28}", "{1998-2026}年{1-12}月")
ZH_MONEY = ("{2-900}元", "人民币{2-900}元", "{1-90}.{1-9}元", "￥{10-9000}")
ZH_PHONE = ("1{300000000-899999999}0", "0{10-99}-{10000000-89999999}", "400-{100-999}-{1000-9999}")
ZH_MAIL = ("info@{domain}", "office{10-99}@{domain}", "{last}@{domain}")
ZH_GOODS = Domain(
    ("商品", "名称", "物品"),
    "折叠椅 台灯 雨衣 水管 咖啡机 挂钟 帐篷 打气筒 电饭煲 手电钻 "
    "野餐垫 水壶 围巾 梯子 保温杯 菜刀 工具箱 瑜伽垫 书架 雨伞".split(),
    [
        Field(
            ("价格", "单价", "售价"),
            ("{}多少钱？", "{}的价格是多少？", "买一个{}要花多少钱？"),
            ("{}售价为{}。", "一个{}要{}。"),
            ZH_MONEY,
        ),
        Field(
            ("重量", "净重"),
            ("{}有多重？", "{}的重量是多少？"),
            ("{}重{}。",),
            ("{1-40}公斤", "{100-950}克", "{1-9}.{1-9}千克"),
        ),
        Field(("颜色",), ("{}是什么颜色的？", "{}有哪种颜色？"), ("{}是{}的。",), ("{颜色}", "{颜色}和{颜色}")),
        Field(
            ("材质", "材料"), ("{}是用什么做的？", "{}是什么材质？"), ("{}的材质是{}。",), ("{材料}", "{材料}和{材料}")
        ),
        Field(
            ("供应商", "厂家"),
            ("{}由谁供货？", "{}是哪家公司生产的？", "{}的供应商是谁？"),
            ("{}由{}供应。",),
            ("{公司}",),
        ),
        Field(("库存", "数量"), ("{}还剩多少件？", "{}的库存有多少？"), ("{}还有{}件。",), ("{2-900}",)),
    ],
    [("各位同事：\n你们要的清单如下。", "\n此致\n敬礼\n仓库\n"), ("盘点记录\n", "\n下次盘点在春天。\n")],
    ("：", ": "),
    "",
)
ZH_STAFF = Domain(
    ("姓名", "员工"),
    [last + first for last, first in zip(WORDS["姓"], WORDS["名"], strict=True)],
    [
        Field(
            ("职务", "岗位"), ("{}的职务是什么？", "{}担任什么工作？", "{}是做什么的？"), ("{}担任{}。",), ("{职务}",)
        ),
        Field(("邮箱", "电子邮件"), ("{}的邮箱是什么？", "怎样给{}写邮件？"), ("{}的邮箱是{}。",), ZH_MAIL),
        Field(("电话", "手机"), ("{}的电话号码是多少？", "打哪个电话能找到{}？"), ("{}的电话是{}。",), ZH_PHONE),
        Field(
            ("入职日期", "入职时间"), ("{}是什么时候入职的？", "{}从哪天开始在这里上班？"), ("{}于{}入职。",), ZH_DATE
        ),
        Field(("办公室", "地点"), ("{}在哪里办公？", "在哪里可以找到{}？"), ("{}在{}办公。",), ("{房间}",)),
        Field(("主管", "上级"), ("{}的上级是谁？", "{}向谁汇报？"), ("{}的上级是{}。",), ZH_PERSON),
    ],
    [("全体员工：\n近期人员有变动。", "\n办公室\n"), ("会议记录\n", "\n会议到此结束。\n")],
    ("：", ": "),
    "",
)
ZH_EVENTS = Domain(
    ("活动", "项目"),
    "春季音乐会 书展 夜跑 象棋赛 夏令营 开放日 电影周 丰收集市 诗歌朗诵会 "
    "机器人课 合唱排练 跳蚤市场 龙舟赛 烹饪课 科普讲座".split(),
    [
        Field(("日期", "时间"), ("{}是哪天？", "{}什么时候举行？", "{}定在几号？"), ("{}定于{}举行。",), ZH_DATE),
        Field(
            ("地点", "场地"),
            ("{}在哪里举行？", "{}的地点在哪？"),
            ("{}在{}举行。",),
            ("{房间}", "{城市}{路}{1-300}号", "{城市}"),
        ),
        Field(
            ("开始时间", "时段"),
            ("{}几点开始？", "{}从几点到几点？"),
            ("{}的时段为{}。",),
            ("{7-11}:{00-30}至{13-20}:{00-45}", "上午{8-11}点", "晚上{6-9}点半"),
        ),
        Field(("门票", "费用"), ("{}的门票多少钱？", "参加{}要交多少费用？"), ("{}的门票为{}。",), (*ZH_MONEY, "免费")),
        Field(
            ("负责人", "联系人"),
            ("{}由谁负责？", "谁组织{}？", "{}的负责人是谁？"),
            ("{}由{}负责。",),
            (*ZH_PERSON, "{公司}"),
        ),
        Field(("名额", "座位"), ("{}能有多少人参加？", "{}有多少个名额？"), ("{}有{}个名额。",), ("{10-600}",)),
    ],
    [("各位会员：\n今年的安排如下。", "\n欢迎参加。\n"), ("活动安排\n", "\n如有变化另行通知。\n")],
    ("：", ": "),
    "",
)
DOMAINS: dict[str, list[Domain]] = {"en": [GOODS, STAFF, EVENTS, SERVICES], "zh": [ZH_GOODS, ZH_STAFF, ZH_EVENTS]}
