//! Polish, Russian and Ukrainian markers.

use super::{List, Mark};

/// Polish, Russian and Ukrainian phrases. The particle "не" is in no list, so a message with it
/// never consists only of markers.
pub(super) const LISTS: &[List] = &[
    // Polish
    (
        Mark::YES,
        "tak, no tak, jasne, oczywiście, pewnie, dobra, dobrze, zgoda, zgadza się, w porządku, \
        tak poproszę, \
        racja, okej",
    ),
    (Mark::CONTINUE, "zrób to, śmiało, działaj"),
    (
        Mark::NO,
        "nie, nie dzięki, jeszcze nie, źle, to źle, niedobrze, nieprawda, nie podoba mi się",
    ),
    (
        Mark::APPROVE,
        "wygląda dobrze, wygląda świetnie, świetnie, świetny, super, doskonale, idealnie, \
        idealny, perfekcyjnie, \
        znakomicie, wspaniale, rewelacja, gotowe, zrobione, skończone, to wszystko, nic więcej, \
        dobra robota, \
        dobra praca, działa, to działa, podoba mi się, zatwierdzam, zatwierdzone, akceptuję, \
        potwierdzam, \
        wszystko gra, wszystko dobrze, bardzo dobrze, zostaw tak, pięknie",
    ),
    (
        Mark::THANKS,
        "dzięki, dziękuję, dziękuję bardzo, wielkie dzięki, dzięki wielkie, dziękuje, i dzięki",
    ),
    (Mark::ACKNOWLEDGE, "rozumiem"),
    (
        Mark::ABANDON,
        "anuluj, anuluj to, anulować, anuluj wszystko, przestań, zatrzymaj, zatrzymaj to, \
        zatrzymaj się, zapomnij, \
        zapomnij o tym, daj spokój, zostaw to, przerwij, przerwij to, porzuć to, porzuć, \
        rezygnuję, odpuść, \
        odpuść to",
    ),
    (Mark::ABANDON_WEAK, "nieważne, nie ważne"),
    (Mark::DOUBT, "nieistotne, obojętnie"),
    (Mark::EXCUSE, "sam to zrobię, już niepotrzebne, zmieniłem zdanie, zmieniłam zdanie"),
    (
        Mark::CONTINUE,
        "kontynuuj, dalej, jedź dalej, idź dalej, rób dalej, jeszcze raz, spróbuj ponownie",
    ),
    (Mark::HESITATE, "czekaj, poczekaj, zaczekaj, chwila, chwileczkę, moment"),
    (Mark::DOUBT, "może, nie wiem, nie jestem pewien"),
    (Mark::GREET, "cześć, hej, witaj, witam, dzień dobry, dobry wieczór"),
    (
        Mark::FILLER,
        "proszę, to, jest, to jest, już, teraz, tutaj, tu, bardzo, naprawdę, wszystko, \
        po prostu, zadanie, \
        to zadanie, dla mnie, za pomoc, więc",
    ),
    (Mark::OPENER, "proszę, więc, po prostu"),
    (Mark::TIE, "ale, też, także, również, oprócz tego, zamiast, jednak, oraz, lub, poza tym"),
    (Mark::JOIN, "ale, potem, a potem, i też, ale też"),
    (
        Mark::TOPIC,
        "nowe zadanie, następne zadanie, kolejne zadanie, inne zadanie, inny temat, nowy temat, \
        zmiana tematu, \
        coś innego, coś nowego, z innej beczki",
    ),
    (Mark::MOVE_ON, "przejdźmy do, zmieńmy temat, zajmijmy się czymś innym, mam nowe zadanie"),
    (Mark::NOW, "teraz, teraz proszę, następnie"),
    (
        Mark::REQUEST.or(Mark::MAKE),
        "dodaj, stwórz, utwórz, zbuduj, napisz, zaimplementuj, opracuj, zaprojektuj, napraw, \
        popraw, zintegruj, \
        wygeneruj, wprowadź",
    ),
    (
        Mark::REQUEST,
        "zrób, zmień, użyj, usuń, przenieś, zastąp, ustaw, uruchom, spróbuj, wyłącz, włącz, \
        przetestuj",
    ),
    (
        Mark::ASK,
        "co, dlaczego, czemu, jak, kiedy, gdzie, kto, który, która, które, ile, czy, po co",
    ),
    (
        Mark::ASK_SURE,
        "dlaczego, czemu, co to znaczy, co oznacza, co to jest, jak działa, co robi, ile",
    ),
    (Mark::ASK_FAR, "co masz na myśli, nie rozumiem, co to znaczy"),
    (
        Mark::POLITE,
        "czy możesz, możesz, mógłbyś, mogłabyś, czy mógłbyś, możemy, czy możemy, chcę, \
        chciałbym, potrzebuję",
    ),
    (Mark::SUGGEST, "dlaczego nie, czemu nie, może użyjmy, a może, a co z"),
    (
        Mark::EXPLAIN,
        "pokaż, pokaż mi, wyjaśnij, wyjaśnij mi, powiedz, powiedz mi, opisz, podsumuj, pokazać, \
        wyjaśnić, \
        mi pokazać",
    ),
    (Mark::STATUS, "postęp, jaki status, jak idzie"),
    (Mark::DEICTIC, "ten, tę, tego, tym, ją, też, także, znowu, tam"),
    (Mark::SUPPORT, "testy, dokumentację, komentarze"),
    // Russian
    (
        Mark::YES,
        "да, ага, угу, конечно, хорошо, ладно, ок, окей, верно, согласен, согласна, именно, \
        разумеется, точно, \
        давай, да пожалуйста",
    ),
    (Mark::CONTINUE, "делай, сделай это, вперед, валяй, действуй"),
    (
        Mark::NO,
        "нет, неа, нет спасибо, еще нет, неправильно, неверно, плохо, не так, не то, не нравится",
    ),
    (
        Mark::APPROVE,
        "выглядит хорошо, выглядит отлично, отлично, прекрасно, идеально, супер, класс, круто, \
        замечательно, \
        великолепно, превосходно, готово, сделано, все готово, это все, больше ничего, \
        хорошая работа, \
        отличная работа, молодец, работает, все работает, нравится, мне нравится, одобряю, \
        подтверждаю, принято, \
        утверждаю, годится, пойдет, очень хорошо, оставь так, оставь как есть, все хорошо, \
        все верно",
    ),
    (Mark::THANKS, "спасибо, большое спасибо, спасибо большое, благодарю, спс, и спасибо"),
    (Mark::ACKNOWLEDGE, "понятно, понял, поняла"),
    (
        Mark::ABANDON,
        "отмена, отмени, отменить, отмени это, отмени все, отменяй, стоп, стой, хватит, \
        остановись, останови, \
        остановите, прекрати, прекращай, забудь, забудь об этом, забудь про это, забей, брось, \
        брось это, \
        оставь это, прерви",
    ),
    (Mark::ABANDON_WEAK, "неважно, не важно"),
    (Mark::NO, "не надо"),
    (Mark::DOUBT, "без разницы"),
    (
        Mark::EXCUSE,
        "я сам сделаю, сам сделаю, уже не нужно, больше не нужно, я передумал, передумал, \
        я передумала, \
        передумала",
    ),
    (
        Mark::CONTINUE,
        "продолжай, продолжайте, продолжить, дальше, давай дальше, еще раз, попробуй снова, \
        попробуй еще раз",
    ),
    (Mark::HESITATE, "подожди, погоди, минутку, секунду, хм, эм"),
    (Mark::DOUBT, "может быть, возможно, не знаю, не уверен"),
    (Mark::GREET, "привет, здравствуй, здравствуйте, добрый день, доброе утро, добрый вечер"),
    (
        Mark::FILLER,
        "пожалуйста, плиз, это, все, уже, сейчас, теперь, здесь, тут, очень, так, просто, \
        действительно, задачу, \
        эту задачу, за помощь, мне, меня, пока все, вообще, ну",
    ),
    (Mark::OPENER, "пожалуйста, просто, так, ну, давай, окей, ок, ладно, хорошо"),
    (Mark::TIE, "но, также, тоже, еще, вместо, однако, и, или, кроме того, кроме, а"),
    (Mark::JOIN, "и, но, а, потом, затем, а также, и еще, но еще"),
    (
        Mark::TOPIC,
        "новая задача, следующая задача, другая задача, другая тема, новая тема, смена темы, \
        другой вопрос, \
        что то другое, кое что другое, не по теме, по другой теме",
    ),
    (
        Mark::MOVE_ON,
        "перейдем к, давай перейдем к, давай займемся другим, сменим тему, давай сменим тему, \
        у меня новая задача",
    ),
    (Mark::NOW, "теперь, сейчас, а теперь, теперь давай, далее"),
    (
        Mark::REQUEST.or(Mark::MAKE),
        "добавь, добавьте, создай, создайте, построй, напиши, напишите, реализуй, реализуйте, \
        разработай, \
        спроектируй, почини, исправь, исправьте, интегрируй, сгенерируй, внедри, перепиши, настрой",
    ),
    (
        Mark::REQUEST,
        "сделай, сделайте, измени, поменяй, используй, удали, убери, переименуй, замени, \
        перенеси, поставь, \
        запусти, попробуй, включи, отключи, проверь",
    ),
    (
        Mark::ASK,
        "что, почему, зачем, как, когда, где, кто, какой, какая, какие, сколько, куда, откуда",
    ),
    (
        Mark::ASK_SURE,
        "почему, зачем, что значит, что это, что такое, что делает, как работает, \
        как это работает, сколько, \
        что ты сделал",
    ),
    (
        Mark::ASK_FAR,
        "что ты имеешь в виду, не понимаю, я не понимаю, не понял, что это значит, в смысле",
    ),
    (
        Mark::POLITE,
        "можешь, можете, мог бы ты, могли бы вы, можешь ли ты, не мог бы ты, можно, давай, хочу, \
        мне нужно, нужно",
    ),
    (
        Mark::SUGGEST,
        "почему бы не, почему бы нам не, а если, может лучше, а что насчет, как насчет",
    ),
    (
        Mark::EXPLAIN,
        "покажи, покажи мне, покажите, объясни, объясни мне, объясните, расскажи, скажи, опиши, \
        поясни, показать, \
        объяснить",
    ),
    (Mark::STATUS, "статус, прогресс, как дела, как успехи, какой статус"),
    (Mark::DEICTIC, "это, этот, эту, этого, его, ее, их, тот, ту, тоже, также, снова, туда"),
    (Mark::SUPPORT, "тесты, тест, документацию, комментарии"),
    // Ukrainian
    (
        Mark::YES,
        "так, ага, звичайно, звісно, добре, гаразд, авжеж, згоден, згодна, саме так, вірно, \
        правильно, \
        так будь ласка",
    ),
    (Mark::CONTINUE, "роби, зроби це, вперед, дій"),
    (Mark::NO, "ні, ні дякую, ще ні, неправильно, невірно, погано, не те"),
    (
        Mark::APPROVE,
        "виглядає добре, виглядає чудово, чудово, відмінно, ідеально, супер, клас, круто, \
        прекрасно, готово, \
        зроблено, це все, більше нічого, гарна робота, молодець, працює, все працює, подобається, \
        мені подобається, схвалюю, підтверджую, прийнято, дуже добре, залиш так, все добре, \
        бездоганно",
    ),
    (Mark::THANKS, "дякую, дуже дякую, щиро дякую, спасибі, дякую дуже, і дякую"),
    (Mark::ACKNOWLEDGE, "зрозуміло, зрозумів, зрозуміла"),
    (
        Mark::ABANDON,
        "скасуй, скасувати, скасуй це, скасуй все, відміна, відміни, відмінити, стоп, стій, \
        досить, годі, \
        зупинись, зупини, припини, забудь, забудь про це, облиш, кинь це, залиш це, перерви",
    ),
    (Mark::ABANDON_WEAK, "неважливо, не важливо"),
    (Mark::NO, "не треба"),
    (Mark::DOUBT, "байдуже"),
    (
        Mark::EXCUSE,
        "я сам зроблю, сам зроблю, вже не потрібно, більше не потрібно, я передумав, передумав, \
        я передумала",
    ),
    (Mark::CONTINUE, "продовжуй, продовжуйте, далі, давай далі, ще раз, спробуй ще раз"),
    (Mark::HESITATE, "зачекай, почекай, хвилинку, секунду"),
    (Mark::DOUBT, "можливо, мабуть, не знаю, не впевнений"),
    (Mark::GREET, "привіт, вітаю, добрий день, доброго ранку, доброго дня"),
    (
        Mark::FILLER,
        "будь ласка, це, все, вже, зараз, тепер, тут, дуже, просто, справді, завдання, \
        це завдання, за допомогу, \
        мені",
    ),
    (Mark::OPENER, "будь ласка, просто, ну, давай, добре, гаразд"),
    (Mark::TIE, "але, також, теж, ще, замість, проте, однак, і, й, та, або, крім того"),
    (Mark::JOIN, "і, й, та, але, потім, а також, і ще"),
    (
        Mark::TOPIC,
        "нове завдання, наступне завдання, інше завдання, інша тема, нова тема, зміна теми, \
        щось інше, не по темі",
    ),
    (
        Mark::MOVE_ON,
        "перейдімо до, перейдемо до, давай перейдемо до, змінимо тему, у мене нове завдання",
    ),
    (Mark::NOW, "тепер, зараз, а тепер"),
    (
        Mark::REQUEST.or(Mark::MAKE),
        "додай, додайте, створи, створіть, побудуй, напиши, напишіть, реалізуй, розроби, \
        спроєктуй, виправ, \
        виправте, інтегруй, згенеруй, перепиши, налаштуй",
    ),
    (
        Mark::REQUEST,
        "зроби, зробіть, зміни, використай, використовуй, видали, прибери, перейменуй, заміни, \
        постав, запусти, \
        спробуй",
    ),
    (Mark::ASK, "що, чому, навіщо, як, коли, де, хто, який, яка, які, скільки, чи"),
    (Mark::ASK_SURE, "чому, навіщо, що означає, що це, що таке, що робить, як працює, скільки"),
    (Mark::ASK_FAR, "що ти маєш на увазі, не розумію, я не розумію, що це означає"),
    (
        Mark::POLITE,
        "можеш, можете, чи можеш, чи можете, міг би ти, чи міг би ти, чи не міг би ти, можна, \
        хочу, мені потрібно",
    ),
    (Mark::SUGGEST, "чому б не, чому б нам не, а якщо, а як щодо"),
    (
        Mark::EXPLAIN,
        "покажи, покажи мені, покажіть, поясни, поясни мені, поясніть, розкажи, скажи, опиши, \
        показати, пояснити",
    ),
    (Mark::STATUS, "статус, прогрес, як справи"),
    (Mark::DEICTIC, "це, цей, цю, цього, його, її, їх, той, теж, також, знову"),
    (Mark::SUPPORT, "тести, документацію, коментарі"),
];
