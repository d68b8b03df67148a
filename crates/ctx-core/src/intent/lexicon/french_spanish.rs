//! French and Spanish markers.

use super::{List, Mark};

/// French and Spanish phrases.
pub(super) const LISTS: &[List] = &[
    // French
    (
        Mark::YES,
        "oui, ouais, ouaip, daccord, bien sûr, certainement, exact, exactement, entendu, \
        oui merci, \
        oui sil te plaît, volontiers, carrément",
    ),
    (Mark::CONTINUE, "vas y, allez y, fais le, fais ça"),
    (Mark::NO, "non, nan, non merci, pas encore, pas du tout, pas bon, cest faux, faux"),
    (
        Mark::APPROVE,
        "parfait, cest parfait, très bien, bien, super, génial, excellent, magnifique, \
        impeccable, nickel, \
        formidable, bravo, ça marche, ça fonctionne, cest bon, cest bien, cest tout, \
        ça a lair bien, ça me va, \
        ça me convient, terminé, fini, cest fini, bon travail, beau travail, bien joué, \
        tout est bon, approuvé, \
        validé, je valide, je confirme, rien dautre, laisse comme ça",
    ),
    (
        Mark::THANKS,
        "merci, merci beaucoup, merci bien, grand merci, et merci, merci pour tout, merci à toi",
    ),
    (Mark::ACKNOWLEDGE, "compris"),
    (
        Mark::ABANDON,
        "annule, annuler, annulez, annule ça, annule tout, annule cela, arrête, arrêtez, \
        arrêter, arrête ça, \
        arrête tout, arrête toi, arrête là, laisse tomber, laissez tomber, oublie, oublie ça, \
        oubliez, oubliez ça, \
        abandonne, abandonner, abandonnez, stoppe, stoppez, stoppe ça, on arrête, \
        on laisse tomber, on oublie, \
        tant pis",
    ),
    (Mark::ACKNOWLEDGE, "ce nest pas grave, cest pas grave, pas grave"),
    (Mark::DOUBT, "peu importe"),
    (
        Mark::EXCUSE,
        "je le ferai moi même, je vais le faire moi même, plus besoin, jai changé davis",
    ),
    (
        Mark::CONTINUE,
        "continue, continuez, continuer, poursuis, poursuivez, encore une fois, réessaie",
    ),
    (Mark::HESITATE, "attends, attendez, un moment, un instant, euh"),
    (Mark::DOUBT, "bof, peut être, je ne sais pas, je sais pas, aucune idée"),
    (Mark::GREET, "bonjour, bonsoir, salut, coucou"),
    (
        Mark::FILLER,
        "sil te plaît, sil vous plaît, stp, svp, ça, cest, cela, ceci, tout, tout ça, ici, là, \
        maintenant, très, \
        vraiment, pour moi, tout à fait, pour ton aide, pour votre aide, alors, juste, la tâche, \
        cette tâche, \
        immédiatement, ah, oh, ben, bah, mais oui",
    ),
    (Mark::OPENER, "sil te plaît, sil vous plaît, stp, svp, alors, ben, bah, juste, tout à fait"),
    (
        Mark::TIE,
        "mais, aussi, également, en plus, plutôt, cependant, et, ou, au lieu, sauf, à la place",
    ),
    (Mark::JOIN, "et, mais, puis, alors, et puis, et aussi, mais aussi"),
    (
        Mark::TOPIC,
        "nouvelle tâche, prochaine tâche, tâche suivante, autre tâche, une autre tâche, \
        une nouvelle tâche, \
        autre sujet, changement de sujet, nouveau sujet, sujet différent, autre chose, \
        quelque chose dautre, \
        rien à voir, sans rapport",
    ),
    (
        Mark::MOVE_ON,
        "passons à, passons au, passons à autre chose, changeons de sujet, jai une nouvelle tâche, \
        on passe à autre chose",
    ),
    (Mark::NOW, "maintenant, à présent, ensuite"),
    (
        Mark::REQUEST.or(Mark::MAKE),
        "ajoute, ajoutez, crée, créez, construis, écris, écrivez, implémente, implémentez, \
        développe, corrige, \
        répare, intègre, génère, conçois, réécris, ajouter, créer",
    ),
    (
        Mark::REQUEST,
        "fais, faites, mets, change, modifie, modifiez, utilise, utilisez, supprime, supprimez, \
        renomme, remplace, \
        enlève, retire, déplace, teste, lance, essaie, essaye, prends",
    ),
    (
        Mark::ASK,
        "que, quoi, quest ce que, quest ce qui, pourquoi, comment, quand, où, qui, quel, quelle, \
        quels, quelles, \
        combien, est ce que, cest quoi, ça veut dire quoi",
    ),
    (
        Mark::ASK_SURE,
        "pourquoi, quest ce que, quest ce qui, que veut dire, que signifie, comment ça marche, \
        comment fonctionne, \
        cest quoi, ça veut dire quoi, combien, où en es tu",
    ),
    (
        Mark::ASK_FAR,
        "que veux tu dire, quest ce que ça veut dire, je ne comprends pas, je comprends pas, \
        tu veux dire quoi",
    ),
    (Mark::ASK_VERB, "as tu, es tu, avez vous, est, a t il, y a t il, est il"),
    (
        Mark::POLITE,
        "peux tu, pouvez vous, pourrais tu, pourriez vous, tu peux, vous pouvez, on peut, \
        peut on, pourrait on, \
        tu pourrais, est ce que tu peux, je voudrais, je veux, jai besoin",
    ),
    (
        Mark::SUGGEST,
        "pourquoi pas, pourquoi ne pas, et si on, pourquoi on nutilise pas, que dirais tu",
    ),
    (
        Mark::EXPLAIN,
        "montre, montre moi, montrez moi, explique, explique moi, expliquez, expliquez moi, \
        dis moi, dites moi, \
        décris, résume moi, me montrer, mexpliquer, me dire, expliquer, montrer",
    ),
    (Mark::STATUS, "statut, où en est on, avancement"),
    (Mark::DEICTIC, "ça, cela, ceci, ce, cet, cette, ces, aussi, celui, celle, plutôt, encore"),
    (Mark::SUPPORT, "des tests, les tests, un test, la documentation, des commentaires"),
    // Spanish
    (
        Mark::YES,
        "sí, claro, claro que sí, por supuesto, de acuerdo, vale, exacto, cierto, desde luego, \
        sí por favor, ok",
    ),
    (Mark::CONTINUE, "adelante, hazlo, hágalo"),
    (
        Mark::NO,
        "no, no gracias, todavía no, aún no, para nada, incorrecto, mal, está mal, no está bien, \
        no me gusta",
    ),
    (
        Mark::APPROVE,
        "se ve bien, se ve muy bien, bien, muy bien, está bien, perfecto, excelente, genial, \
        estupendo, \
        fantástico, fenomenal, maravilloso, listo, hecho, terminado, eso es todo, nada más, \
        buen trabajo, \
        bien hecho, funciona, me gusta, aprobado, apruebo, confirmado, confirmo, todo bien, \
        todo correcto, \
        me parece bien, suena bien, correcto, buenísimo, déjalo así",
    ),
    (
        Mark::THANKS,
        "gracias, muchas gracias, mil gracias, y gracias, gracias por todo, gracias por la ayuda",
    ),
    (Mark::ACKNOWLEDGE, "entendido"),
    (
        Mark::ABANDON,
        "cancela, cancelar, cancélalo, cancela eso, cancela esto, cancela todo, cancele, \
        olvídalo, olvida eso, \
        olvida esto, olvídate, olvídate de eso, olvídelo, déjalo, déjelo, para ya, \
        para por favor, para eso, \
        para todo, detente, deténte, detén, detener, aborta, abortar, abandona, abandonar, \
        descártalo, dejémoslo",
    ),
    (Mark::DOUBT, "no importa, da igual"),
    (
        Mark::EXCUSE,
        "lo haré yo, lo hago yo, ya no hace falta, ya no lo necesito, cambié de opinión, \
        cambié de idea",
    ),
    (
        Mark::CONTINUE,
        "continúa, continuar, continúe, sigue, siga, seguir, sigue así, prosigue, otra vez, \
        inténtalo de nuevo",
    ),
    (Mark::HESITATE, "espera, espere, un momento, un segundo"),
    (Mark::DOUBT, "quizás, quizá, tal vez, no sé, no lo sé, no estoy seguro"),
    (Mark::GREET, "hola, buenos días, buenas tardes, buenas noches, buenas"),
    (
        Mark::FILLER,
        "por favor, porfa, eso, esto, es, está, todo, ya, ahora, aquí, así, muy, realmente, \
        por ahora no, \
        la tarea, esta tarea, lo, para mí, a mí, me, por tu ayuda, por la ayuda, por todo, solo, \
        sólo, entonces, \
        bueno, pues, todo está",
    ),
    (Mark::OPENER, "por favor, porfa, entonces, bueno, pues, solo, vale"),
    (Mark::TIE, "pero, también, además, en lugar, en vez, sin embargo, excepto, mejor"),
    (Mark::JOIN, "y, e, pero, luego, y luego, y también, pero también"),
    (
        Mark::TOPIC,
        "nueva tarea, siguiente tarea, próxima tarea, otra tarea, una nueva tarea, otro tema, \
        tema diferente, \
        tema nuevo, cambio de tema, otra cosa, algo diferente, algo distinto, algo nuevo, \
        cambiando de tema, \
        nada que ver",
    ),
    (
        Mark::MOVE_ON,
        "pasemos a, vamos a otra cosa, cambiemos de tema, pasemos a otra cosa, \
        tengo una nueva tarea, \
        tengo otra tarea",
    ),
    (Mark::NOW, "ahora, a continuación, ahora por favor"),
    (
        Mark::REQUEST.or(Mark::MAKE),
        "añade, agrega, agregue, crea, cree, construye, escribe, escriba, implementa, \
        implemente, desarrolla, \
        arregla, corrige, integra, genera, diseña, reescribe, añadir, agregar",
    ),
    (
        Mark::REQUEST,
        "haz, haga, pon, cambia, cambie, modifica, usa, use, utiliza, elimina, borra, quita, \
        renombra, reemplaza, \
        mueve, prueba, ejecuta, intenta, hazlo, ponlo, cámbialo",
    ),
    (
        Mark::ASK,
        "qué, por qué, cómo, cuándo, dónde, quién, cuál, cuáles, cuánto, cuántos, para qué",
    ),
    (
        Mark::ASK_SURE,
        "qué significa, qué es, qué son, qué hace, qué hiciste, cómo funciona, cómo va, por qué, \
        cuál es, \
        dónde está",
    ),
    (Mark::ASK_FAR, "qué quieres decir, no entiendo, no lo entiendo, qué quiere decir"),
    (Mark::ASK_VERB, "es, está, hay, has, tiene, funciona, son, hiciste"),
    (
        Mark::POLITE,
        "puedes, podrías, puede, podría, podemos, podríamos, me puedes, quiero, quisiera, \
        necesito, \
        me gustaría que",
    ),
    (
        Mark::SUGGEST,
        "por qué no usamos, por qué no usas, por qué no, y si usamos, qué tal si, qué tal",
    ),
    (
        Mark::EXPLAIN,
        "muéstrame, muestra, muéstreme, enséñame, explica, explícame, explique, explíqueme, \
        dime, dígame, \
        mostrarme, explicarme, enseñarme, decirme, mostrar, explicar",
    ),
    (Mark::STATUS, "estado, el estado, progreso, cómo va"),
    (Mark::DEICTIC, "lo, eso, esto, ese, esa, este, esta, esos, esas, también, otra vez, así"),
    (Mark::SUPPORT, "pruebas, las pruebas, tests, documentación, comentarios, unas pruebas"),
];
