//! French, Spanish, Portuguese and Italian markers.

use super::{List, Mark};

/// French and Spanish phrases.
pub(super) const LISTS: &[List] = &[
    // French
    (
        Mark::YES,
        "oui, ouais, ouaip, daccord, bien sûr, certainement, exact, exactement, entendu, oui merci, oui sil te plaît, volontiers, \
        carrément",
    ),
    (Mark::GO_AHEAD, "vas y, allez y, fais le, fais ça"),
    (Mark::NO, "non, nan, non merci, pas encore, pas du tout, pas bon, cest faux, faux"),
    (
        Mark::APPROVE,
        "parfait, cest parfait, très bien, bien, super, génial, excellent, magnifique, impeccable, nickel, formidable, \
        bravo, ça marche, ça fonctionne, cest bon, cest bien, cest tout, ça a lair bien, ça me va, ça me convient, terminé, fini, \
        cest fini, bon travail, beau travail, bien joué, tout est bon, approuvé, validé, je valide, je confirme, \
        rien dautre, laisse comme ça",
    ),
    (Mark::THANKS, "merci, merci beaucoup, merci bien, grand merci, et merci, merci pour tout, merci à toi, compris"),
    (
        Mark::ABANDON,
        "annule, annuler, annulez, annule ça, annule tout, annule cela, arrête, arrêtez, arrêter, arrête ça, arrête tout, \
        arrête toi, arrête là, laisse tomber, laissez tomber, oublie, oublie ça, oubliez, oubliez ça, abandonne, abandonner, \
        abandonnez, stoppe, stoppez, stoppe ça, on arrête, on laisse tomber, on oublie, tant pis",
    ),
    (Mark::ABANDON_WEAK, "peu importe, ce nest pas grave, cest pas grave, pas grave"),
    (Mark::EXCUSE, "je le ferai moi même, je vais le faire moi même, plus besoin, jai changé davis"),
    (Mark::CONTINUE, "continue, continuez, continuer, poursuis, poursuivez, encore une fois, réessaie"),
    (
        Mark::HESITATE,
        "attends, attendez, un moment, un instant, euh, bof, peut être, je ne sais pas, je sais pas, aucune idée",
    ),
    (Mark::GREET, "bonjour, bonsoir, salut, coucou"),
    (
        Mark::FILLER,
        "sil te plaît, sil vous plaît, stp, svp, ça, cest, cela, ceci, tout, tout ça, ici, là, maintenant, très, vraiment, \
        pour moi, tout à fait, pour ton aide, pour votre aide, alors, juste, la tâche, cette tâche, immédiatement, ah, oh, ben, bah, mais oui",
    ),
    (Mark::OPENER, "sil te plaît, sil vous plaît, stp, svp, alors, ben, bah, juste, tout à fait"),
    (Mark::TIE, "mais, aussi, également, en plus, plutôt, cependant, et, ou, au lieu, sauf, à la place"),
    (Mark::JOIN, "et, mais, puis, alors, et puis, et aussi, mais aussi"),
    (
        Mark::TOPIC,
        "nouvelle tâche, prochaine tâche, tâche suivante, autre tâche, une autre tâche, une nouvelle tâche, autre sujet, \
        changement de sujet, nouveau sujet, sujet différent, autre chose, quelque chose dautre, rien à voir, sans rapport",
    ),
    (
        Mark::MOVE_ON,
        "passons à, passons au, passons à autre chose, changeons de sujet, jai une nouvelle tâche, on passe à autre chose",
    ),
    (Mark::NOW, "maintenant, à présent, ensuite"),
    (
        Mark::REQUEST.or(Mark::MAKE),
        "ajoute, ajoutez, crée, créez, construis, écris, écrivez, implémente, implémentez, développe, corrige, \
        répare, intègre, génère, conçois, réécris, ajouter, créer",
    ),
    (
        Mark::REQUEST,
        "fais, faites, mets, change, modifie, modifiez, utilise, utilisez, supprime, supprimez, renomme, remplace, enlève, \
        retire, déplace, teste, lance, essaie, essaye, prends",
    ),
    (
        Mark::ASK,
        "que, quoi, quest ce que, quest ce qui, pourquoi, comment, quand, où, qui, quel, quelle, quels, quelles, combien, \
        est ce que, cest quoi, ça veut dire quoi",
    ),
    (
        Mark::ASK_SURE,
        "pourquoi, quest ce que, quest ce qui, que veut dire, que signifie, comment ça marche, comment fonctionne, \
        cest quoi, ça veut dire quoi, combien, où en es tu",
    ),
    (
        Mark::ASK_FAR,
        "que veux tu dire, quest ce que ça veut dire, je ne comprends pas, je comprends pas, tu veux dire quoi",
    ),
    (Mark::ASK_VERB, "as tu, es tu, avez vous, est, a t il, y a t il, est il"),
    (
        Mark::POLITE,
        "peux tu, pouvez vous, pourrais tu, pourriez vous, tu peux, vous pouvez, on peut, peut on, pourrait on, tu pourrais, \
        est ce que tu peux, je voudrais, je veux, jai besoin",
    ),
    (Mark::SUGGEST, "pourquoi pas, pourquoi ne pas, et si on, pourquoi on nutilise pas, que dirais tu"),
    (
        Mark::EXPLAIN,
        "montre, montre moi, montrez moi, explique, explique moi, expliquez, expliquez moi, dis moi, dites moi, décris, \
        résume moi, me montrer, mexpliquer, me dire, expliquer, montrer",
    ),
    (Mark::STATUS, "statut, où en est on, avancement"),
    (Mark::DEICTIC, "ça, cela, ceci, ce, cet, cette, ces, aussi, celui, celle, plutôt, encore"),
    (Mark::SUPPORT, "des tests, les tests, un test, la documentation, des commentaires"),
    // Spanish
    (
        Mark::YES,
        "sí, sip, claro, claro que sí, por supuesto, de acuerdo, vale, exacto, cierto, desde luego, sí por favor, dale, ok",
    ),
    (Mark::GO_AHEAD, "adelante, hazlo, hágalo"),
    (Mark::NO, "no, no gracias, todavía no, aún no, para nada, incorrecto, mal, está mal, no está bien, no me gusta"),
    (
        Mark::APPROVE,
        "se ve bien, se ve muy bien, bien, muy bien, está bien, perfecto, excelente, genial, estupendo, fantástico, \
        fenomenal, maravilloso, listo, hecho, terminado, eso es todo, nada más, buen trabajo, bien hecho, funciona, me gusta, \
        aprobado, apruebo, confirmado, confirmo, todo bien, todo correcto, me parece bien, suena bien, correcto, buenísimo, déjalo así",
    ),
    (
        Mark::THANKS,
        "gracias, muchas gracias, mil gracias, y gracias, gracias por todo, gracias por la ayuda, entendido",
    ),
    (
        Mark::ABANDON,
        "cancela, cancelar, cancélalo, cancela eso, cancela esto, cancela todo, cancele, olvídalo, olvida eso, olvida esto, \
        olvídate, olvídate de eso, olvídelo, déjalo, déjelo, para, para ya, para eso, para todo, detente, deténte, detén, detener, \
        aborta, abortar, abandona, abandonar, descártalo, dejémoslo",
    ),
    (Mark::ABANDON_WEAK, "no importa, da igual"),
    (Mark::EXCUSE, "lo haré yo, lo hago yo, ya no hace falta, ya no lo necesito, cambié de opinión, cambié de idea"),
    (
        Mark::CONTINUE,
        "continúa, continuar, continúe, sigue, siga, seguir, sigue así, prosigue, otra vez, inténtalo de nuevo",
    ),
    (
        Mark::HESITATE,
        "espera, espere, un momento, un segundo, quizás, quizá, tal vez, no sé, no lo sé, no estoy seguro",
    ),
    (Mark::GREET, "hola, buenos días, buenas tardes, buenas noches, buenas"),
    (
        Mark::FILLER,
        "por favor, porfa, eso, esto, es, está, todo, ya, ahora, aquí, así, muy, realmente, por ahora no, la tarea, esta tarea, lo, \
        para mí, a mí, me, por tu ayuda, por la ayuda, por todo, solo, sólo, entonces, bueno, pues, todo está",
    ),
    (Mark::OPENER, "por favor, porfa, entonces, bueno, pues, solo, vale"),
    (Mark::TIE, "pero, también, además, en lugar, en vez, sin embargo, y, e, o, excepto, mejor"),
    (Mark::JOIN, "y, e, pero, luego, y luego, y también, pero también"),
    (
        Mark::TOPIC,
        "nueva tarea, siguiente tarea, próxima tarea, otra tarea, una nueva tarea, otro tema, tema diferente, tema nuevo, \
        cambio de tema, otra cosa, algo diferente, algo distinto, algo nuevo, cambiando de tema, nada que ver",
    ),
    (
        Mark::MOVE_ON,
        "pasemos a, vamos a otra cosa, cambiemos de tema, pasemos a otra cosa, tengo una nueva tarea, tengo otra tarea",
    ),
    (Mark::NOW, "ahora, a continuación, ahora por favor"),
    (
        Mark::REQUEST.or(Mark::MAKE),
        "añade, agrega, agregue, crea, cree, construye, escribe, escriba, implementa, implemente, desarrolla, \
        arregla, corrige, integra, genera, diseña, reescribe, añadir, agregar",
    ),
    (
        Mark::REQUEST,
        "haz, haga, pon, cambia, cambie, modifica, usa, use, utiliza, elimina, borra, quita, renombra, reemplaza, mueve, \
        prueba, ejecuta, intenta, hazlo, ponlo, cámbialo",
    ),
    (Mark::ASK, "qué, por qué, cómo, cuándo, dónde, quién, cuál, cuáles, cuánto, cuántos, para qué"),
    (
        Mark::ASK_SURE,
        "qué significa, qué es, qué son, qué hace, qué hiciste, cómo funciona, cómo va, por qué, cuál es, dónde está",
    ),
    (Mark::ASK_FAR, "qué quieres decir, no entiendo, no lo entiendo, qué quiere decir"),
    (Mark::ASK_VERB, "es, está, hay, has, tiene, funciona, son, hiciste"),
    (
        Mark::POLITE,
        "puedes, podrías, puede, podría, podemos, podríamos, me puedes, quiero, quisiera, necesito, me gustaría que",
    ),
    (Mark::SUGGEST, "por qué no usamos, por qué no usas, por qué no, y si usamos, qué tal si, qué tal"),
    (
        Mark::EXPLAIN,
        "muéstrame, muestra, muéstreme, enséñame, explica, explícame, explique, explíqueme, dime, dígame, \
        mostrarme, explicarme, enseñarme, decirme, mostrar, explicar",
    ),
    (Mark::STATUS, "estado, el estado, progreso, cómo va"),
    (Mark::DEICTIC, "lo, eso, esto, ese, esa, este, esta, esos, esas, también, otra vez, así"),
    (Mark::SUPPORT, "pruebas, las pruebas, tests, documentación, comentarios, unas pruebas"),
];

/// Portuguese and Italian phrases.
pub(super) const MORE: &[List] = &[
    // Portuguese
    (
        Mark::YES,
        "sim, claro, com certeza, certo, isso mesmo, isso aí, exato, de acordo, tá, tá bom, beleza, sim por favor, pode ser",
    ),
    (Mark::GO_AHEAD, "vá em frente, pode ir, faça isso, manda ver"),
    (Mark::NO, "não, não obrigado, não obrigada, ainda não, errado, está errado, não está bom, não gostei"),
    (
        Mark::APPROVE,
        "parece bom, parece ótimo, está bom, está ótimo, ficou bom, ficou ótimo, bom, muito bom, ótimo, perfeito, \
        excelente, maravilhoso, fantástico, incrível, pronto, feito, concluído, terminado, é isso, é só isso, só isso, nada mais, \
        bom trabalho, muito bem, funciona, funcionou, gostei, aprovado, aprovo, confirmado, confirmo, tudo certo, tudo bem, \
        deixa assim, deixe assim, show de bola",
    ),
    (Mark::THANKS, "obrigado, obrigada, muito obrigado, muito obrigada, valeu, e obrigado, grato, grata, entendi"),
    (
        Mark::ABANDON,
        "cancela, cancele, cancelar, cancela isso, cancele isso, cancela tudo, esquece, esqueça, esquece isso, esqueça isso, \
        deixa pra lá, deixe pra lá, deixa para lá, deixe para lá, pare, parar, pare com isso, para com isso, pare já, aborte, \
        abortar, desisto, desiste, abandone, interrompa",
    ),
    (Mark::ABANDON_WEAK, "não importa, tanto faz, deixa"),
    (Mark::EXCUSE, "eu mesmo faço, eu faço, não preciso mais, não é mais necessário, mudei de ideia"),
    (Mark::CONTINUE, "continue, continua, continuar, prossiga, siga, segue, vá em diante, de novo, tente de novo"),
    (Mark::HESITATE, "espera, espere, um momento, calma, talvez, não sei, sei lá"),
    (Mark::GREET, "olá, oi, bom dia, boa tarde, boa noite"),
    (
        Mark::FILLER,
        "por favor, isso, isto, é, está, tudo, já, agora, aqui, assim, muito, realmente, a tarefa, esta tarefa, essa tarefa, \
        para mim, pra mim, por tudo, pela ajuda, só, então, bem, né",
    ),
    (Mark::OPENER, "por favor, então, bem, só"),
    (Mark::TIE, "mas, também, além disso, em vez, ao invés, porém, exceto"),
    (Mark::JOIN, "e, mas, depois, e depois, e também, mas também"),
    (
        Mark::TOPIC,
        "nova tarefa, próxima tarefa, outra tarefa, uma nova tarefa, outro assunto, assunto diferente, novo assunto, \
        mudando de assunto, outra coisa, algo diferente, algo novo, nada a ver",
    ),
    (
        Mark::MOVE_ON,
        "vamos passar para, vamos para outra coisa, vamos mudar de assunto, tenho uma nova tarefa, tenho outra tarefa",
    ),
    (Mark::NOW, "agora, agora por favor, em seguida"),
    (
        Mark::REQUEST.or(Mark::MAKE),
        "adicione, adiciona, acrescente, crie, cria, construa, escreva, escreve, implemente, desenvolva, \
        conserte, corrija, integre, gere, projete, reescreva, adicionar, criar",
    ),
    (
        Mark::REQUEST,
        "faça, faz, coloque, mude, muda, altere, modifique, use, usa, utilize, remova, exclua, apague, renomeie, substitua, \
        mova, teste, execute, tente, ponha",
    ),
    (Mark::ASK, "o que, que, por que, porque, porquê, como, quando, onde, quem, qual, quais, quanto, quantos"),
    (Mark::ASK_SURE, "o que significa, o que é, o que são, o que faz, como funciona, por que você, qual é, onde está"),
    (Mark::ASK_FAR, "o que você quer dizer, não entendi, não entendo, o que quer dizer, como assim"),
    (Mark::ASK_VERB, "é, está, há, tem, foi, são, funciona, você já"),
    (
        Mark::POLITE,
        "você pode, pode, poderia, você poderia, podes, podemos, poderias, quero, queria, preciso, gostaria que",
    ),
    (Mark::SUGGEST, "por que não usamos, por que não, que tal, e se a gente, e se usarmos"),
    (
        Mark::EXPLAIN,
        "mostre, mostra, mostre me, mostra me, me mostra, me mostre, explique, explica, explique me, me explica, me explique, \
        diga me, me diga, me diz, descreva, resuma, me mostrar, me explicar, me dizer, mostrar me, explicar me",
    ),
    (Mark::STATUS, "andamento, progresso, como está indo"),
    (Mark::DEICTIC, "isso, isto, esse, essa, este, esta, ele, ela, também, de novo, aquele, aquilo"),
    (Mark::SUPPORT, "testes, os testes, documentação, comentários"),
    // Italian
    (
        Mark::YES,
        "sì, certo, certamente, va bene, daccordo, esatto, giusto, ovvio, ovviamente, sì grazie, sì per favore, sicuro, ok",
    ),
    (Mark::GO_AHEAD, "vai, vai pure, fallo, procedi pure, fai pure"),
    (Mark::NO, "no, no grazie, non ancora, sbagliato, è sbagliato, non va bene, non mi piace, per niente"),
    (
        Mark::APPROVE,
        "sembra buono, sembra ottimo, va benissimo, bene, molto bene, benissimo, perfetto, ottimo, eccellente, fantastico, \
        magnifico, stupendo, fatto, finito, completato, è tutto, questo è tutto, nientaltro, nessuna modifica, ottimo lavoro, \
        bel lavoro, ben fatto, funziona, mi piace, approvato, approvo, confermo, confermato, tutto bene, tutto ok, tutto a posto, \
        mi sembra buono, mi va bene, lascia così, bello",
    ),
    (Mark::THANKS, "grazie, grazie mille, mille grazie, molte grazie, grazie tante, e grazie, ti ringrazio, capito"),
    (
        Mark::ABANDON,
        "annulla, annullare, annullalo, annulla tutto, annulla questo, annulla quello, lascia perdere, lascia stare, lasciamo perdere, \
        dimentica, dimenticalo, dimentica tutto, fermati, ferma, ferma tutto, fermo, smettila, smetti, interrompi, interrompere, \
        abbandona, abbandonare, rinuncia, rinuncio",
    ),
    (Mark::ABANDON_WEAK, "non importa, fa niente, non fa niente"),
    (Mark::EXCUSE, "lo faccio io, ci penso io, non serve più, non mi serve più, ho cambiato idea"),
    (
        Mark::CONTINUE,
        "continua, continuare, prosegui, vai avanti, avanti, procedi, di nuovo, ancora una volta, riprova",
    ),
    (Mark::HESITATE, "aspetta, aspetti, un attimo, un momento, forse, non so, non lo so, non sono sicuro, boh, mah"),
    (Mark::GREET, "ciao, salve, buongiorno, buonasera"),
    (
        Mark::FILLER,
        "per favore, per piacere, questo, quello, è, tutto, ora, adesso, qui, qua, così, molto, davvero, il compito, \
        lattività, questo compito, per me, di tutto, per laiuto, allora, pure, subito",
    ),
    (Mark::OPENER, "per favore, per piacere, allora, beh, dai, solo"),
    (Mark::TIE, "ma, però, anche, inoltre, invece, tuttavia, tranne, oppure"),
    (Mark::JOIN, "e, ma, poi, e poi, e anche, ma anche"),
    (
        Mark::TOPIC,
        "nuovo compito, nuova attività, prossimo compito, prossima attività, altro compito, altro argomento, \
        argomento diverso, nuovo argomento, cambio argomento, cambiando argomento, qualcosaltro, qualcosa di diverso, \
        qualcosa di nuovo, altra cosa, unaltra cosa",
    ),
    (Mark::MOVE_ON, "passiamo a, passiamo al, passiamo ad altro, cambiamo argomento, ho un nuovo compito"),
    (Mark::NOW, "ora, adesso"),
    (
        Mark::REQUEST.or(Mark::MAKE),
        "aggiungi, crea, costruisci, scrivi, implementa, sviluppa, correggi, ripara, integra, genera, \
        progetta, riscrivi, sistema",
    ),
    (
        Mark::REQUEST,
        "fai, metti, cambia, modifica, usa, utilizza, rimuovi, elimina, cancella, rinomina, sostituisci, sposta, prova, esegui, \
        imposta, togli",
    ),
    (Mark::ASK, "cosa, che cosa, che, perché, come, quando, dove, chi, quale, quali, quanto, quanti"),
    (
        Mark::ASK_SURE,
        "perché hai, cosa significa, cosè, cosa è, cosa fa, come funziona, cosa vuol dire, che cosè, qual è, dovè",
    ),
    (Mark::ASK_FAR, "cosa intendi, cosa vuoi dire, non capisco, non ho capito, che significa, che vuol dire"),
    (Mark::ASK_VERB, "è, hai, ha, ci sono, cè, funziona, sono"),
    (Mark::POLITE, "puoi, potresti, può, potrebbe, possiamo, potremmo, voglio, vorrei, ho bisogno"),
    (Mark::SUGGEST, "perché non usiamo, perché non, che ne dici di, e se usassimo"),
    (
        Mark::EXPLAIN,
        "mostra, mostrami, spiega, spiegami, dimmi, descrivi, riassumi, fammi vedere, mostrarmi, spiegarmi, dirmi, farmi vedere",
    ),
    (Mark::STATUS, "stato, a che punto sei, come procede, come va"),
    (Mark::DEICTIC, "questo, questa, quello, quella, quel, lo, anche, di nuovo, invece"),
    (Mark::SUPPORT, "i test, dei test, documentazione, commenti"),
];
