//! German and Dutch markers.

use super::{List, Mark};

/// German and Dutch phrases. German "also" is omitted, because the English word requests more.
pub(super) const LISTS: &[List] = &[
    // German
    (
        Mark::YES,
        "ja, jap, jep, jawohl, genau, klar, na klar, natürlich, sicher, gerne, gern, stimmt, \
        richtig, \
        einverstanden, in ordnung, geht klar, ja bitte, ja gerne, oki, passt schon",
    ),
    (Mark::CONTINUE, "mach das, mach es, leg los, nur zu, tu es"),
    (
        Mark::NO,
        "nein, nee, nö, falsch, nein danke, noch nicht, nicht gut, stimmt nicht, passt nicht",
    ),
    (
        Mark::APPROVE,
        "sieht gut aus, schaut gut aus, das sieht gut aus, gut, sehr gut, also gut, perfekt, \
        super, toll, klasse, \
        prima, spitze, hervorragend, ausgezeichnet, großartig, wunderbar, fertig, erledigt, \
        passt, passt so, \
        das passt, passt alles, funktioniert, es funktioniert, das wars, das war es, \
        das ist alles, alles gut, \
        alles klar, alles bestens, gute arbeit, gut gemacht, schön, sehr schön, genehmigt, \
        angenommen, abgenommen, \
        freigegeben, so lassen, lass es so, keine änderungen, gefällt mir, wie gewünscht, geil, \
        abgeschlossen",
    ),
    (
        Mark::THANKS,
        "danke, danke dir, danke schön, dankeschön, vielen dank, besten dank, danke sehr, \
        herzlichen dank, \
        tausend dank, und danke",
    ),
    (Mark::ACKNOWLEDGE, "verstanden"),
    (
        Mark::ABANDON,
        "abbrechen, brich ab, brich das ab, bitte abbrechen, abbruch, stopp, stoppe, hör auf, \
        hör auf damit, \
        aufhören, vergiss es, vergiss das, lass es, lass es sein, lass das, lass gut sein, \
        lass mal, lass stecken, \
        hör bitte auf, halt an, verwirf das, verwirf es, verwerfen, storniere das, stornieren",
    ),
    (Mark::ACKNOWLEDGE, "schon gut"),
    (Mark::DOUBT, "egal, ist egal, nicht so wichtig"),
    (
        Mark::EXCUSE,
        "ich mache es selbst, ich mach es selbst, ich mach das selbst, brauche ich nicht mehr, \
        nicht mehr nötig, \
        hat sich erledigt, ich hab es mir anders überlegt",
    ),
    (
        Mark::CONTINUE,
        "weiter, mach weiter, weitermachen, fahr fort, fortfahren, weiter so, nochmal, \
        noch einmal, \
        versuch es nochmal",
    ),
    (Mark::HESITATE, "warte, warte mal, moment, moment mal, einen moment, ähm, äh, naja, na ja"),
    (Mark::DOUBT, "weiß nicht, ich weiß nicht, keine ahnung, vielleicht, mal sehen"),
    (Mark::GREET, "hallo, guten morgen, guten tag, guten abend, servus, moin, grüß gott"),
    (
        Mark::FILLER,
        "bitte, das, es, ist, so, jetzt, hier, dann, doch, einfach, alles, sehr, mir, für mich, \
        wirklich, ganz, \
        echt, absolut, die aufgabe, den task, sofort, eigentlich, ich, finde, finde ich, \
        für die hilfe, \
        für deine hilfe, für alles, das ist, es ist, nun, schon",
    ),
    (Mark::OPENER, "bitte, einfach, eigentlich, nun, dann, ach, oh, so"),
    (
        Mark::TIE,
        "aber, auch, außerdem, zusätzlich, stattdessen, jedoch, sondern, noch, und, oder, statt",
    ),
    (Mark::JOIN, "und, aber, dann, und dann, und auch, aber auch"),
    (
        Mark::TOPIC,
        "neue aufgabe, nächste aufgabe, andere aufgabe, anderes thema, neues thema, \
        themenwechsel, etwas anderes, \
        was anderes, etwas ganz anderes, etwas neues, ganz anderes thema, unabhängig davon, \
        nächstes thema, \
        neuer auftrag",
    ),
    (
        Mark::MOVE_ON,
        "machen wir weiter mit, gehen wir weiter zu, lass uns etwas anderes machen, \
        wechseln wir das thema, \
        lass uns zu etwas anderem, kommen wir zu, ich habe eine neue aufgabe, \
        ich hab eine neue aufgabe",
    ),
    (Mark::NOW, "jetzt, nun, jetzt bitte, als nächstes, jetzt lass uns"),
    (
        Mark::REQUEST.or(Mark::MAKE),
        "füge, füg, baue, bau, erstelle, erstell, implementiere, implementier, schreibe, \
        schreib, entwickle, \
        entwirf, repariere, behebe, richte, integriere, ergänze, ergänz, erzeuge, korrigiere, \
        refaktoriere, \
        migriere",
    ),
    (
        Mark::REQUEST,
        "mach, mache, ändere, änder, nimm, verwende, benutze, nutze, entferne, lösche, benenne, \
        ersetze, setze, \
        verschiebe, teste, lass, starte, führe, probiere, versuche, versuch, verbessere",
    ),
    (
        Mark::ASK,
        "was, warum, wieso, weshalb, wie, wann, wo, wer, welche, welcher, welches, wozu, womit, \
        woher, wohin",
    ),
    (
        Mark::ASK_SURE,
        "warum, wieso, weshalb, was bedeutet, was heißt, was ist, was sind, was macht, \
        wie funktioniert, wie geht, \
        wie weit, wie viel, wie viele, was hast du, wo ist, wo sind, wer ist",
    ),
    (
        Mark::ASK_FAR,
        "was meinst du, verstehe ich nicht, ich verstehe nicht, ich verstehe das nicht, \
        was heißt das, \
        was bedeutet das",
    ),
    (
        Mark::ASK_VERB,
        "ist, sind, hast, hat, habt, hast du, bist, wird, war, gibt, soll, sollte, muss, läuft, \
        geht, \
        funktioniert, weißt, meinst, kann, darf",
    ),
    (
        Mark::POLITE,
        "kannst du, könntest du, kannst du bitte, könntest du bitte, würdest du, können wir, \
        könnten wir, \
        können sie, könnten sie, könntet ihr, bitte, ich möchte, ich hätte gern, ich will, \
        ich brauche",
    ),
    (
        Mark::SUGGEST,
        "warum nicht, wieso nicht, warum nehmen wir nicht, wie wäre es mit, wie wärs mit, \
        was ist mit, \
        sollten wir nicht, sollte das nicht, warum benutzen wir nicht, warum verwenden wir nicht",
    ),
    (
        Mark::EXPLAIN,
        "zeig mir, zeige mir, zeig mal, zeig, erklär, erkläre, erklär mir, erkläre mir, sag mir, \
        sag mal, \
        beschreibe, fasse zusammen, fass zusammen, mir zeigen, mir erklären, mir sagen",
    ),
    (Mark::EXPLAIN_FAR, "mir zeigen, mir erklären, mir sagen, mir das erklären"),
    (Mark::STATUS, "stand, der stand, fortschritt, zwischenstand, wie ist der stand"),
    (
        Mark::DEICTIC,
        "es, das, diese, dieses, diesen, dieser, den, dem, ihn, sie, daraus, dort, damit, auch, \
        stattdessen, \
        wieder",
    ),
    (Mark::SUPPORT, "tests, einen test, dokumentation, kommentare, doku"),
    // Dutch
    (
        Mark::YES,
        "ja, jawel, zeker, natuurlijk, prima, akkoord, oké, goed idee, klopt, ja graag, graag",
    ),
    (Mark::CONTINUE, "doe maar, ga je gang, doe het"),
    (Mark::NO, "nee, neen, fout, nee bedankt, nog niet, niet goed, klopt niet"),
    (
        Mark::APPROVE,
        "ziet er goed uit, dat ziet er goed uit, goed, heel goed, perfect, uitstekend, geweldig, \
        fantastisch, \
        mooi, heel mooi, klaar, gereed, afgerond, goed gedaan, goed werk, werkt, het werkt, \
        dat werkt, \
        dat was alles, dat is alles, helemaal goed, in orde, goedgekeurd, zo laten, laat het zo, \
        lekker, super",
    ),
    (
        Mark::THANKS,
        "bedankt, dank je, dank je wel, dankjewel, dank u, dank u wel, hartelijk dank, en bedankt",
    ),
    (Mark::ACKNOWLEDGE, "begrepen"),
    (
        Mark::ABANDON,
        "annuleer, annuleren, annuleer dat, annuleer het, annuleer dit, stop maar, stop ermee, \
        stop daarmee, \
        hou op, houd op, kap ermee, laat maar, laat maar zitten, vergeet het, vergeet het maar, \
        vergeet dat, \
        afbreken, breek af, breek het af",
    ),
    (Mark::ACKNOWLEDGE, "geeft niet"),
    (Mark::DOUBT, "maakt niet uit"),
    (Mark::EXCUSE, "ik doe het zelf, niet meer nodig, ik heb me bedacht"),
    (
        Mark::CONTINUE,
        "ga door, doorgaan, ga verder, verder, ga maar door, opnieuw, nog een keer, \
        probeer opnieuw",
    ),
    (Mark::HESITATE, "wacht, wacht even, even wachten, een moment"),
    (Mark::DOUBT, "misschien, weet niet, ik weet het niet, geen idee"),
    (Mark::GREET, "hallo, hoi, goedemorgen, goedemiddag, goedenavond"),
    (
        Mark::FILLER,
        "alsjeblieft, alstublieft, aub, het, dat, dit, is, nu, hier, maar even, gewoon, echt, \
        heel, zo, voor mij, \
        mij, wel, voor je hulp, voor de hulp, het is, dat is, dit is, er, alles, de taak, \
        deze taak, hoor",
    ),
    (Mark::OPENER, "alsjeblieft, alstublieft, aub, gewoon, eigenlijk, even, nou"),
    (Mark::TIE, "maar, ook, daarnaast, bovendien, in plaats daarvan, echter, en, of, nog"),
    (Mark::JOIN, "en, maar, dan, en dan, en ook, maar ook"),
    (
        Mark::TOPIC,
        "nieuwe taak, volgende taak, andere taak, ander onderwerp, nieuw onderwerp, iets anders, \
        iets heel anders, \
        iets nieuws, los daarvan, een andere taak, een nieuwe taak",
    ),
    (
        Mark::MOVE_ON,
        "laten we verder gaan met, laten we doorgaan met, laten we iets anders doen, \
        laten we van onderwerp veranderen, ik heb een nieuwe taak",
    ),
    (Mark::NOW, "nu, nou"),
    (
        Mark::REQUEST.or(Mark::MAKE),
        "voeg, bouw, schrijf, implementeer, ontwikkel, ontwerp, herstel, repareer, integreer, \
        genereer",
    ),
    (
        Mark::REQUEST,
        "maak, verander, wijzig, gebruik, verwijder, hernoem, vervang, zet, verplaats, probeer, \
        draai, doe",
    ),
    (Mark::ASK, "wat, waarom, hoe, wanneer, waar, wie, welke, welk"),
    (
        Mark::ASK_SURE,
        "waarom, wat betekent, wat is, wat zijn, wat doet, hoe werkt, hoe ver, hoeveel, waar is, \
        wie is",
    ),
    (Mark::ASK_FAR, "wat bedoel je, wat betekent dat, ik begrijp het niet, ik snap het niet"),
    (Mark::ASK_VERB, "is, zijn, heb, hebt, heeft, ben, wordt, was, moet, zou, werkt, doet, gaat"),
    (
        Mark::POLITE,
        "kan je, kun je, zou je, kunt u, kunnen we, zou u, wil je, graag, ik wil, ik wil graag, \
        ik heb nodig",
    ),
    (
        Mark::SUGGEST,
        "waarom niet, waarom gebruiken we niet, wat dacht je van, hoe zit het met, wat met",
    ),
    (
        Mark::EXPLAIN,
        "laat me, laat zien, toon me, toon de, toon het, leg uit, leg me uit, vertel me, \
        beschrijf, vat samen, \
        me laten zien, uitleggen",
    ),
    (Mark::EXPLAIN_FAR, "laten zien, uitleggen"),
    (Mark::STATUS, "voortgang"),
    (Mark::DEICTIC, "het, dat, dit, deze, die, hem, ook, hiervan, daarvan, weer"),
    (Mark::SUPPORT, "documentatie, commentaar"),
];
