"""Made-up sentences and web pages in ten languages, the same for the same seed.

Sentences are put together from parts that fit each other in grammar, so that a language detector
knows them. Every language has more than fifty thousand distinct ones.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

HEADER_CODES: Mapping[str, str] = {
    "ar": "ara",
    "de": "deu",
    "en": "eng",
    "es": "spa",
    "fr": "fra",
    "hi": "hin",
    "ja": "jpn",
    "ru": "rus",
    "th": "tha",
    "zh": "zho",
}
"""What Common Crawl calls each language that texts can be made in."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """The parts of a language's sentences, one a line, and how they are joined."""

    when: str
    who: str
    does: str
    where: str
    orders: tuple[str, ...]
    menu: str


def sentences(language: str, count: int, seed: int) -> list[str]:
    """Return so many distinct sentences, in a random order."""
    grammar = GRAMMARS[language]
    when, who, does, where = (
        [line.strip() for line in part.strip().splitlines()]
        for part in (grammar.when, grammar.who, grammar.does, grammar.where)
    )
    sizes = (len(grammar.orders), len(when), len(who), len(does), len(where))
    total = sizes[0] * sizes[1] * sizes[2] * sizes[3] * sizes[4]
    if count > total:
        raise ValueError(f"there are {total} sentences in {language!r}, not {count}")
    made = []
    for number in random.Random(f"{language} {seed}").sample(range(total), count):
        places = []
        for size in sizes:
            number, place = divmod(number, size)
            places.append(place)
        order, a, b, c, d = places
        text = grammar.orders[order].format(when=when[a], who=who[b], does=does[c], where=where[d])
        first = next(place for place, letter in enumerate(text) if letter.isalpha())
        made.append(text[:first] + text[first].upper() + text[first + 1 :])
    return made


def page_text(language: str, count: int, seed: int) -> str:
    """Return the text of a page with so many sentences and what else is on a page.

    A menu, prose in paragraphs, lists, a cookie notice in English, a line too long to be prose, and
    a footer that repeats a sentence of the page.
    """
    generator = random.Random(f"page {language} {seed}")
    prose = sentences(language, count, seed)
    menu = GRAMMARS[language].menu.strip().splitlines()
    lines = [*generator.sample(menu, min(len(menu), 5)), f"{generator.random():.4f}", ""]
    space = "" if language in ("ja", "zh") else " "
    start = 0
    while start < len(prose):
        stop = start + generator.randint(2, 5)
        lines.append(space.join(prose[start:stop]))
        start = stop
        if generator.random() < 0.3:
            lines += [f"{generator.choice(menu)} | {generator.choice(menu)}", "* * *"]
    if generator.random() < 0.1:
        lines.append("[(" * generator.randint(2_600, 4_000))
    if prose:
        lines += ["", space.join([prose[0], prose[-1]])]
    lines += [
        f"© {generator.randint(2004, 2026)} www.site-{seed}.example",
        "We use cookies to give you a better experience on this website.",
        *generator.sample(menu, min(len(menu), 4)),
    ]
    return "\n".join(lines) + "\n"


_LATIN = ("{when} {who} {does} {where}.", "{who} {does} {where} {when}.")

GRAMMARS: Mapping[str, Grammar] = {
    "en": Grammar(
        when="""
            last winter
            on Tuesday morning
            two years ago
            after the long rain
            before the holidays
            during the meeting
            at the end of the week
            in the early evening
            once again this spring
            soon after the election
            without much noise
            for the third time
        """,
        who="""
            the old teacher
            a young engineer
            my neighbour from the second floor
            the mayor of the town
            her younger brother
            the new owner of the bakery
            a group of students
            the woman with the red umbrella
            our football coach
            the captain of the ferry
            one of the nurses
            the local newspaper
            his grandmother
            the committee for road safety
            a tired bus driver
            the gardener
            somebody from the village
            the museum's director
            everyone in the office
            the carpenter's daughter
        """,
        does="""
            opened a small library
            asked for a better timetable
            talked about the price of bread
            found a box full of letters
            planted forty apple trees
            repaired the broken bicycles
            told the children a strange story
            wrote a long letter to the council
            sold the last of the honey
            forgot to close the windows
            cooked soup for the whole street
            counted the birds
            painted the wooden fence green
            lost the keys to the cellar
            learned to play the violin
            waited for the first train
            promised to come back with more help
            showed us the way
            argued about the colour of the door
            took pictures of the empty square
            built a bridge out of old boats
            read the report twice
        """,
        where="""
            near the railway station
            behind the church
            in a quiet part of the city
            on the other side of the river
            at the edge of the forest
            next to the school
            in front of the town hall
            under the big oak tree
            in the hospital garden
            close to the border
            on the island
            in the market hall
        """,
        orders=(
            *_LATIN,
            "“{when} {who} {does} {where},” she said.",
            "Do you know why {who} {does} {where} {when}?",
        ),
        menu="""
Home
About us
Contact
Log in
Read more
Privacy policy
Shopping cart (0)
Share this post
Next page
Terms of use
Sort by price
Search results
        """,
    ),
    "de": Grammar(
        when="""
            gestern Abend
            vor zwei Jahren
            nach dem langen Regen
            am Dienstag
            im letzten Winter
            kurz vor den Ferien
            gegen Ende der Woche
            zum dritten Mal
            ohne viel Lärm
            während der Sitzung
        """,
        who="""
            der alte Lehrer
            eine junge Ingenieurin
            mein Nachbar aus dem zweiten Stock
            die Bürgermeisterin der Stadt
            ihr kleiner Bruder
            der neue Besitzer der Bäckerei
            die Frau mit dem roten Regenschirm
            unser Trainer
            die örtliche Zeitung
            seine Großmutter
            der Ausschuss für Verkehr
            ein müder Busfahrer
            die Gärtnerin
            jemand aus dem Dorf
            die Tochter des Tischlers
            das halbe Büro
        """,
        does="""
            eine kleine Bücherei eröffnet
            um einen besseren Fahrplan gebeten
            über den Preis von Brot gesprochen
            eine Kiste voller Briefe gefunden
            vierzig Apfelbäume gepflanzt
            die kaputten Fahrräder geflickt
            den Kindern eine seltsame Geschichte erzählt
            einen langen Brief geschrieben
            den letzten Honig verkauft
            für die ganze Straße Suppe gekocht
            die Vögel gezählt
            den hölzernen Zaun grün gestrichen
            den Schlüssel zum Keller verloren
            auf den ersten Zug gewartet
            mehr Hilfe versprochen
            uns den Weg gezeigt
            sich über die Farbe der Tür gestritten
            den leeren Platz fotografiert
        """,
        where="""
            in der Nähe des Bahnhofs
            hinter der Kirche
            auf der anderen Seite des Flusses
            am Rand des Waldes
            neben der Schule
            vor dem Rathaus
            unter der großen Eiche
            im Garten des Krankenhauses
            dicht an der Grenze
            auf der Insel
            in der Markthalle
            in einem stillen Teil der Stadt
        """,
        orders=(
            "{when} hat {who} {where} {does}.",
            "{who} hat {when} {where} {does}.",
            "Niemand weiß, warum {who} {when} {where} {does} hat.",
        ),
        menu="""
Startseite
Über uns
Kontakt
Anmelden
Weiterlesen
Datenschutz
Warenkorb (0)
Beitrag teilen
Nächste Seite
Impressum
        """,
    ),
    "fr": Grammar(
        when="""
            hier soir
            il y a deux ans
            après la longue pluie
            mardi matin
            l'hiver dernier
            juste avant les vacances
            à la fin de la semaine
            pour la troisième fois
            sans beaucoup de bruit
            pendant la réunion
        """,
        who="""
            le vieux professeur
            une jeune ingénieure
            mon voisin du deuxième étage
            la maire de la ville
            son petit frère
            le nouveau patron de la boulangerie
            un groupe d'étudiants
            la femme au parapluie rouge
            notre entraîneur
            le journal local
            sa grand-mère
            le comité des transports
            un chauffeur de bus fatigué
            la jardinière
            quelqu'un du village
            la fille du menuisier
        """,
        does="""
            a ouvert une petite bibliothèque
            a demandé un meilleur horaire
            a parlé du prix du pain
            a trouvé une boîte pleine de lettres
            a planté quarante pommiers
            a réparé les vieux vélos
            a raconté une histoire étrange aux enfants
            a écrit une longue lettre
            a vendu le dernier pot de miel
            a préparé de la soupe pour toute la rue
            a compté les oiseaux
            a peint la clôture en vert
            a perdu la clé de la cave
            a attendu le premier train
            a promis de revenir avec de l'aide
            nous a montré le chemin
            a discuté de la couleur de la porte
            a pris des photos de la place vide
        """,
        where="""
            près de la gare
            derrière l'église
            de l'autre côté de la rivière
            au bord de la forêt
            à côté de l'école
            devant la mairie
            sous le grand chêne
            dans le jardin de l'hôpital
            tout près de la frontière
            sur l'île
            au marché couvert
            dans un quartier calme de la ville
        """,
        orders=(*_LATIN, "Personne ne sait pourquoi {who} {does} {where} {when}."),
        menu="""
Accueil
Qui sommes-nous
Nous contacter
Connexion
Lire la suite
Mentions légales
Panier (0)
Partager
Page suivante
        """,
    ),
    "es": Grammar(
        when="""
            anoche
            hace dos años
            después de la larga lluvia
            el martes por la mañana
            el invierno pasado
            poco antes de las vacaciones
            al final de la semana
            por tercera vez
            sin mucho ruido
            durante la reunión
        """,
        who="""
            el viejo maestro
            una joven ingeniera
            mi vecino del segundo piso
            la alcaldesa de la ciudad
            su hermano pequeño
            el nuevo dueño de la panadería
            un grupo de estudiantes
            la mujer del paraguas rojo
            nuestro entrenador
            el periódico local
            su abuela
            el comité de transporte
            un conductor cansado
            la jardinera
            alguien del pueblo
            la hija del carpintero
        """,
        does="""
            abrió una pequeña biblioteca
            pidió un horario mejor
            habló del precio del pan
            encontró una caja llena de cartas
            plantó cuarenta manzanos
            arregló las bicicletas rotas
            contó a los niños una historia extraña
            escribió una carta muy larga
            vendió la última miel
            cocinó sopa para toda la calle
            contó los pájaros
            pintó de verde la valla de madera
            perdió la llave del sótano
            esperó el primer tren
            prometió volver con más ayuda
            nos enseñó el camino
            discutió sobre el color de la puerta
            sacó fotos de la plaza vacía
        """,
        where="""
            cerca de la estación
            detrás de la iglesia
            al otro lado del río
            al borde del bosque
            junto a la escuela
            delante del ayuntamiento
            debajo del gran roble
            en el jardín del hospital
            muy cerca de la frontera
            en la isla
            en el mercado
            en un barrio tranquilo de la ciudad
        """,
        orders=(*_LATIN, "¿Sabes por qué {who} {does} {where} {when}?"),
        menu="""
Inicio
Quiénes somos
Contacto
Iniciar sesión
Leer más
Aviso legal
Carrito (0)
Compartir
Página siguiente
        """,
    ),
    "ru": Grammar(
        when="""
            вчера вечером
            два года назад
            после долгого дождя
            во вторник утром
            прошлой зимой
            незадолго до праздников
            в конце недели
            уже в третий раз
            без лишнего шума
            во время собрания
        """,
        who="""
            старый учитель
            молодой инженер
            мой сосед со второго этажа
            мэр нашего города
            её младший брат
            новый хозяин пекарни
            человек с красным зонтом
            наш тренер
            капитан парома
            мой дедушка
            усталый водитель автобуса
            садовник
            кто-то из деревни
            сын плотника
            директор музея
            один из врачей
        """,
        does="""
            открыл небольшую библиотеку
            попросил изменить расписание
            говорил о ценах на хлеб
            нашёл коробку со старыми письмами
            посадил сорок яблонь
            починил сломанные велосипеды
            рассказал детям странную историю
            написал длинное письмо
            продал последний мёд
            сварил суп для всей улицы
            считал птиц
            покрасил деревянный забор
            потерял ключи от подвала
            ждал первого поезда
            обещал вернуться с помощью
            показал нам дорогу
            спорил о цвете двери
            сфотографировал пустую площадь
        """,
        where="""
            недалеко от вокзала
            за церковью
            на другом берегу реки
            на краю леса
            рядом со школой
            перед зданием мэрии
            под большим дубом
            в саду больницы
            у самой границы
            на острове
            на рынке
            в тихом районе города
        """,
        orders=(*_LATIN, "Никто не знает, почему {who} {when} {does} {where}."),
        menu="""
Главная
О нас
Контакты
Войти
Читать далее
Корзина (0)
Поделиться
Следующая страница
        """,
    ),
    "zh": Grammar(
        when="""
            昨天晚上
            两年以前
            下了很久的雨以后
            星期二早上
            去年冬天
            放假之前
            这个周末
            开会的时候
            选举结束不久
            今年春天
        """,
        who="""
            那位老教师
            一个年轻的工程师
            住在二楼的邻居
            这座城市的市长
            她的弟弟
            面包店的新老板
            一群大学生
            拿着红伞的女人
            我们的足球教练
            渡船的船长
            当地的报纸
            他的奶奶
            疲惫的公交司机
            园丁
            村里的一个人
            木匠的女儿
        """,
        does="""
            开了一家小图书馆
            要求改变时间表
            谈到了面包的价格
            发现了一个装满信的箱子
            种了四十棵苹果树
            修好了坏掉的自行车
            给孩子们讲了一个奇怪的故事
            写了一封很长的信
            卖掉了最后的蜂蜜
            为整条街的人煮了汤
            数了数树上的鸟
            把木头栅栏漆成了绿色
            丢了地下室的钥匙
            等了第一班火车
            答应带更多的人来帮忙
            给我们指了路
            为门的颜色争论起来
            拍了空荡荡的广场
        """,
        where="""
            在火车站附近
            在教堂后面
            在河的另一边
            在森林旁边
            在学校旁边
            在市政府前面
            在大树下面
            在医院的花园里
            在边境附近
            在岛上
            在市场里
            在城市里安静的地方
        """,
        orders=(
            "{when}，{who}{where}{does}。",
            "{who}{when}{where}{does}。",
            "你知道{when}{who}为什么{where}{does}吗？",
        ),
        menu="""
首页
关于我们
联系方式
登录
阅读全文
隐私政策
购物车
下一页
        """,
    ),
    "ja": Grammar(
        when="""
            昨日の夜
            二年前に
            長い雨のあとで
            火曜日の朝
            去年の冬
            休みの少し前に
            週の終わりに
            会議のあいだに
            選挙のすぐあとに
            今年の春
        """,
        who="""
            年をとった先生
            若い技術者
            二階に住む隣の人
            この町の市長
            彼女の弟
            パン屋の新しい店長
            学生たち
            赤い傘を持った女の人
            私たちの監督
            船の船長
            地元の新聞の記者
            彼のおばあさん
            疲れたバスの運転手
            庭師
            村の誰か
            大工の娘
        """,
        does="""
            小さな図書館を開きました
            時刻表を変えるように頼みました
            パンの値段について話しました
            手紙でいっぱいの箱を見つけました
            りんごの木を四十本植えました
            壊れた自転車を直しました
            子どもたちに不思議な話をしました
            とても長い手紙を書きました
            最後のはちみつを売りました
            みんなのためにスープを作りました
            鳥の数を数えました
            木の柵を緑色に塗りました
            地下室の鍵をなくしました
            始発の電車を待ちました
            また手伝いに来ると約束しました
            道を教えてくれました
            ドアの色について言い争いました
            誰もいない広場の写真を撮りました
        """,
        where="""
            駅の近くで
            教会の裏で
            川の向こう側で
            森のはずれで
            学校のとなりで
            市役所の前で
            大きな木の下で
            病院の庭で
            国境のそばで
            島で
            市場で
            町の静かなところで
        """,
        orders=(
            "{when}、{who}は{where}{does}。",
            "{who}は{when}{where}{does}。",
            "「{when}、{who}が{where}{does}。」",
        ),
        menu="""
ホーム
会社概要
お問い合わせ
ログイン
続きを読む
カートを見る
次のページ
プライバシー
        """,
    ),
    "ar": Grammar(
        when="""
            مساء أمس
            قبل عامين
            بعد المطر الطويل
            صباح يوم الثلاثاء
            في الشتاء الماضي
            قبل العطلة بقليل
            في نهاية الأسبوع
            للمرة الثالثة
            أثناء الاجتماع
            في بداية هذا العام
        """,
        who="""
            المعلم العجوز
            مهندس شاب من العاصمة
            جاري من الطابق الثاني
            رئيس البلدية
            أخوها الصغير
            صاحب المخبز الجديد
            الرجل صاحب المظلة الحمراء
            مدرب الفريق
            قائد السفينة
            جدي
            سائق الحافلة المتعب
            البستاني
            رجل من القرية
            ابن النجار
            مدير المتحف
            أحد الأطباء
        """,
        does="""
            فتح مكتبة صغيرة
            طلب موعدا أفضل
            تحدث عن سعر الخبز
            وجد صندوقا مليئا بالرسائل
            زرع أربعين شجرة تفاح
            أصلح الدراجات القديمة
            حكى للأطفال قصة غريبة
            كتب رسالة طويلة إلى المجلس
            باع آخر ما لديه من العسل
            طبخ الحساء لكل سكان الشارع
            عد الطيور
            دهن السور الخشبي
            فقد مفتاح القبو
            انتظر القطار الأول
            وعد بالعودة مع مزيد من المساعدة
            أرشدنا إلى الطريق
            اختلف معهم حول لون الباب
            التقط صورا للميدان الفارغ
        """,
        where="""
            بالقرب من محطة القطار
            خلف المسجد
            على الجانب الآخر من النهر
            على طرف الغابة
            بجانب المدرسة
            أمام مبنى البلدية
            تحت الشجرة الكبيرة
            في حديقة المستشفى
            قرب الحدود
            في الجزيرة
            في السوق القديم
            في حي هادئ من المدينة
        """,
        orders=(*_LATIN, "هل تعرف لماذا {who} {does} {where} {when}؟"),
        menu="""
الرئيسية
من نحن
اتصل بنا
تسجيل الدخول
اقرأ المزيد
سياسة الخصوصية
الصفحة التالية
        """,
    ),
    "hi": Grammar(
        when="""
            कल शाम को
            दो साल पहले
            लंबी बारिश के बाद
            मंगलवार की सुबह
            पिछली सर्दियों में
            छुट्टियों से पहले
            सप्ताह के अंत में
            तीसरी बार
            बैठक के दौरान
            चुनाव के बाद
        """,
        who="""
            बूढ़े शिक्षक ने
            एक युवा इंजीनियर ने
            दूसरी मंज़िल के पड़ोसी ने
            शहर के महापौर ने
            उसके छोटे भाई ने
            बेकरी के नए मालिक ने
            कुछ छात्रों ने
            लाल छाते वाली महिला ने
            हमारे कोच ने
            नाव के कप्तान ने
            स्थानीय अख़बार ने
            उसकी दादी ने
            थके हुए बस चालक ने
            माली ने
            गाँव के किसी आदमी ने
            बढ़ई की बेटी ने
        """,
        does="""
            एक छोटा पुस्तकालय खोला
            बेहतर समय की माँग की
            रोटी की कीमत के बारे में बात की
            पत्रों से भरा एक डिब्बा पाया
            सेब के चालीस पेड़ लगाए
            टूटी हुई साइकिलें ठीक कीं
            बच्चों को एक अजीब कहानी सुनाई
            परिषद को एक लंबा पत्र लिखा
            बचा हुआ शहद बेच दिया
            पूरी गली के लिए खाना बनाया
            पक्षियों को गिना
            लकड़ी की बाड़ को हरा रंग दिया
            तहख़ाने की चाबी खो दी
            पहली रेलगाड़ी का इंतज़ार किया
            और मदद के साथ लौटने का वादा किया
            हमें रास्ता दिखाया
            दरवाज़े के रंग पर बहस की
            खाली चौक की तस्वीरें लीं
        """,
        where="""
            रेलवे स्टेशन के पास
            मंदिर के पीछे
            नदी के दूसरी ओर
            जंगल के किनारे
            स्कूल के बगल में
            नगर भवन के सामने
            बड़े पेड़ के नीचे
            अस्पताल के बगीचे में
            सीमा के निकट
            द्वीप पर
            बाज़ार में
            शहर के एक शांत हिस्से में
        """,
        orders=(
            "{when} {who} {where} {does}।",
            "{who} {when} {where} {does}।",
            "क्या {who} {when} {where} {does}?",
        ),
        menu="""
मुख्य पृष्ठ
हमारे बारे में
संपर्क करें
लॉग इन
और पढ़ें
अगला पृष्ठ
        """,
    ),
    "th": Grammar(
        when="""
            เมื่อวานตอนเย็น
            เมื่อสองปีก่อน
            หลังจากฝนตกหนัก
            ในเช้าวันอังคาร
            ในฤดูหนาวที่แล้ว
            ก่อนวันหยุดยาว
            ในช่วงสุดสัปดาห์
            ระหว่างการประชุม
            หลังการเลือกตั้ง
            ในปีนี้
        """,
        who="""
            ครูชราคนนั้น
            วิศวกรหนุ่มคนหนึ่ง
            เพื่อนบ้านที่อยู่ชั้นสอง
            นายกเทศมนตรีของเมือง
            น้องชายของเธอ
            เจ้าของร้านขนมปังคนใหม่
            นักเรียนกลุ่มหนึ่ง
            ผู้หญิงที่ถือร่มสีแดง
            โค้ชฟุตบอลของเรา
            กัปตันเรือข้ามฟาก
            นักข่าวท้องถิ่น
            คุณยายของเขา
            คนขับรถเมล์ที่เหนื่อยล้า
            คนสวน
            ชาวบ้านคนหนึ่ง
            ลูกสาวของช่างไม้
        """,
        does="""
            เปิดห้องสมุดเล็กๆ
            ขอเปลี่ยนตารางเวลา
            พูดถึงราคาขนมปัง
            พบกล่องที่เต็มไปด้วยจดหมาย
            ปลูกต้นแอปเปิลสี่สิบต้น
            ซ่อมจักรยานที่พัง
            เล่าเรื่องแปลกๆให้เด็กฟัง
            เขียนจดหมายยาวถึงสภา
            ขายน้ำผึ้งขวดสุดท้าย
            ทำอาหารให้ทุกคนในซอย
            นับจำนวนนก
            ทาสีรั้วไม้เป็นสีเขียว
            ทำกุญแจห้องใต้ดินหาย
            รอรถไฟขบวนแรก
            สัญญาว่าจะกลับมาช่วย
            บอกทางให้พวกเรา
            เถียงกันเรื่องสีของประตู
            ถ่ายรูปจัตุรัสที่ว่างเปล่า
        """,
        where="""
            ใกล้สถานีรถไฟ
            หลังวัด
            อีกฝั่งหนึ่งของแม่น้ำ
            ที่ชายป่า
            ข้างโรงเรียน
            หน้าศาลากลาง
            ใต้ต้นไม้ใหญ่
            ในสวนของโรงพยาบาล
            ใกล้ชายแดน
            บนเกาะ
            ในตลาด
            ในย่านเงียบสงบของเมือง
        """,
        orders=("{when}{who}{does}{where}", "{who}{does}{where}{when}"),
        menu="""
หน้าแรก
เกี่ยวกับเรา
ติดต่อเรา
เข้าสู่ระบบ
อ่านต่อ
หน้าถัดไป
        """,
    ),
}
