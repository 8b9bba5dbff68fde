"""Sample pages in Chinese and Japanese."""

from __future__ import annotations

from portal.ui.samples.paper import Paper


def notice(paper: Paper) -> None:
    """A Chinese notice to the residents of a house."""
    paper.gap(30)
    paper.line("停水通知", size=64, side="middle", is_bold=True)
    paper.gap(40)
    paper.line("各位居民：", size=34)
    paper.gap(14)
    for text in (
        "　　因小区供水管道检修，定于六月十八日",
        "上午八点至下午五点停止供水。请各位居民",
        "提前储存生活用水，并关好家中水龙头，",
        "以免恢复供水时造成损失。",
        "　　停水期间如有紧急情况，请联系物业",
        "服务中心。给您带来不便，敬请谅解。",
    ):
        paper.line(text, size=36)
        paper.gap(6)
    paper.gap(30)
    paper.line("服务电话：010-5550 0142", size=34)
    paper.line("地址：花园路12号一楼", size=34)
    paper.gap(70)
    paper.line("花园小区物业服务中心", size=34, side="right")
    paper.line("二〇二六年六月十五日", size=34, side="right")


def schedule(paper: Paper) -> None:
    """A Japanese timetable of courses."""
    paper.gap(20)
    paper.line("市民センター 秋の講座案内", size=46, side="middle", is_bold=True)
    paper.gap(20)
    paper.line("どなたでも参加できます。お気軽にお申し込みください。", size=30)
    paper.gap(24)
    paper.grid(
        (
            ("講座名", "曜日", "時間", "受講料"),
            ("はじめての水彩画", "月曜日", "10:00", "1,200円"),
            ("やさしい英会話", "火曜日", "18:30", "1,500円"),
            ("パソコン入門", "水曜日", "13:00", "2,000円"),
            ("家庭料理の基本", "金曜日", "11:00", "1,800円"),
            ("ヨガと健康体操", "土曜日", "9:30", "900円"),
        ),
        (330, 150, 150, 190),
        size=30,
    )
    paper.gap(10)
    for text in (
        "申込期間：9月1日から9月20日まで",
        "申込方法：窓口または電話（03-5550-0142）",
        "会場：さくら市民センター 2階 第3会議室",
    ):
        paper.line(text, size=30)
        paper.gap(6)
    paper.gap(20)
    paper.line("※定員になり次第、受付を終了します。", size=28)
