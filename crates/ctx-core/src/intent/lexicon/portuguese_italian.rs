//! Portuguese and Italian markers.

use super::{List, Mark};

/// Portuguese and Italian phrases.
pub(super) const LISTS: &[List] = &[
    // Portuguese
    (
        Mark::YES,
        "sim, claro, com certeza, certo, isso mesmo, isso aí, exato, de acordo, tá bom, beleza, \
        sim por favor, \
        pode ser",
    ),
    (Mark::CONTINUE, "vá em frente, pode ir, faça isso, manda ver"),
    (
        Mark::NO,
        "não, não obrigado, não obrigada, ainda não, errado, está errado, não está bom, não gostei",
    ),
    (
        Mark::APPROVE,
        "parece bom, parece ótimo, está bom, está ótimo, ficou bom, ficou ótimo, muito bom, \
        ótimo, perfeito, \
        excelente, maravilhoso, fantástico, incrível, pronto, feito, concluído, terminado, \
        é isso, é só isso, \
        só isso, nada mais, bom trabalho, muito bem, funciona, funcionou, gostei, aprovado, \
        aprovo, confirmado, \
        confirmo, tudo certo, tudo bem, deixa assim, deixe assim, show de bola",
    ),
    (
        Mark::THANKS,
        "obrigado, obrigada, muito obrigado, muito obrigada, valeu, e obrigado, grato, grata",
    ),
    (Mark::ACKNOWLEDGE, "entendi"),
    (
        Mark::ABANDON,
        "cancela, cancele, cancelar, cancela isso, cancele isso, cancela tudo, esquece, esqueça, \
        esquece isso, \
        esqueça isso, deixa pra lá, deixe pra lá, deixa para lá, deixe para lá, pare, parar, \
        pare com isso, \
        para com isso, pare já, aborte, abortar, desisto, desiste, abandone, interrompa",
    ),
    (Mark::DOUBT, "não importa, tanto faz"),
    (
        Mark::EXCUSE,
        "eu mesmo faço, eu faço, não preciso mais, não é mais necessário, mudei de ideia",
    ),
    (
        Mark::CONTINUE,
        "continue, continua, continuar, prossiga, siga, segue, vá em diante, de novo, \
        tente de novo",
    ),
    (Mark::HESITATE, "espera, espere, um momento, calma"),
    (Mark::DOUBT, "talvez, não sei, sei lá"),
    (Mark::GREET, "olá, oi, bom dia, boa tarde, boa noite"),
    (
        Mark::FILLER,
        "por favor, isso, isto, é, está, tudo, já, agora, aqui, assim, muito, realmente, \
        a tarefa, esta tarefa, \
        essa tarefa, para mim, pra mim, por tudo, pela ajuda, só, então, bem, né",
    ),
    (Mark::OPENER, "por favor, então, bem, só"),
    (Mark::TIE, "mas, também, além disso, em vez, ao invés, porém, exceto"),
    (Mark::JOIN, "e, mas, depois, e depois, e também, mas também"),
    (
        Mark::TOPIC,
        "nova tarefa, próxima tarefa, outra tarefa, uma nova tarefa, outro assunto, \
        assunto diferente, \
        novo assunto, mudando de assunto, outra coisa, algo diferente, algo novo, nada a ver",
    ),
    (
        Mark::MOVE_ON,
        "vamos passar para, vamos para outra coisa, vamos mudar de assunto, tenho uma nova tarefa, \
        tenho outra tarefa",
    ),
    (Mark::NOW, "agora, agora por favor, em seguida"),
    (
        Mark::REQUEST.or(Mark::MAKE),
        "adicione, adiciona, acrescente, crie, cria, construa, escreva, escreve, implemente, \
        desenvolva, conserte, \
        corrija, integre, gere, projete, reescreva, adicionar, criar",
    ),
    (
        Mark::REQUEST,
        "faça, faz, coloque, mude, muda, altere, modifique, use, usa, utilize, remova, exclua, \
        apague, renomeie, \
        substitua, mova, teste, execute, tente, ponha",
    ),
    (
        Mark::ASK,
        "o que, que, por que, porque, porquê, como, quando, onde, quem, qual, quais, quanto, \
        quantos",
    ),
    (
        Mark::ASK_SURE,
        "o que significa, o que é, o que são, o que faz, como funciona, por que você, qual é, \
        onde está",
    ),
    (
        Mark::ASK_FAR,
        "o que você quer dizer, não entendi, não entendo, o que quer dizer, como assim",
    ),
    (Mark::ASK_VERB, "é, está, há, tem, foi, são, funciona, você já"),
    (
        Mark::POLITE,
        "você pode, pode, poderia, você poderia, podes, podemos, poderias, quero, queria, \
        preciso, gostaria que",
    ),
    (Mark::SUGGEST, "por que não usamos, por que não, que tal, e se a gente, e se usarmos"),
    (
        Mark::EXPLAIN,
        "mostre, mostra, mostre me, mostra me, me mostra, me mostre, explique, explica, \
        explique me, me explica, \
        me explique, diga me, me diga, me diz, descreva, resuma, me mostrar, me explicar, \
        me dizer, mostrar me, \
        explicar me",
    ),
    (Mark::STATUS, "andamento, progresso, como está indo"),
    (
        Mark::DEICTIC,
        "isso, isto, esse, essa, este, esta, ele, ela, também, de novo, aquele, aquilo",
    ),
    (Mark::SUPPORT, "testes, os testes, documentação, comentários"),
    // Italian
    (
        Mark::YES,
        "sì, certo, certamente, va bene, daccordo, esatto, giusto, ovvio, ovviamente, sì grazie, \
        sì per favore, \
        sicuro, ok",
    ),
    (Mark::CONTINUE, "vai, vai pure, fallo, procedi pure, fai pure"),
    (
        Mark::NO,
        "no, no grazie, non ancora, sbagliato, è sbagliato, non va bene, non mi piace, per niente",
    ),
    (
        Mark::APPROVE,
        "sembra buono, sembra ottimo, va benissimo, bene, molto bene, benissimo, perfetto, \
        ottimo, eccellente, \
        fantastico, magnifico, stupendo, fatto, finito, completato, è tutto, questo è tutto, \
        nientaltro, \
        nessuna modifica, ottimo lavoro, bel lavoro, ben fatto, funziona, mi piace, approvato, \
        approvo, confermo, \
        confermato, tutto bene, tutto ok, tutto a posto, mi sembra buono, mi va bene, \
        lascia così, bello",
    ),
    (
        Mark::THANKS,
        "grazie, grazie mille, mille grazie, molte grazie, grazie tante, e grazie, ti ringrazio",
    ),
    (Mark::ACKNOWLEDGE, "capito"),
    (
        Mark::ABANDON,
        "annulla, annullare, annullalo, annulla tutto, annulla questo, annulla quello, \
        lascia perdere, \
        lascia stare, lasciamo perdere, dimentica, dimenticalo, dimentica tutto, fermati, ferma, \
        ferma tutto, \
        fermo, smettila, smetti, interrompi, interrompere, abbandona, abbandonare, rinuncia, \
        rinuncio",
    ),
    (Mark::ACKNOWLEDGE, "fa niente, non fa niente"),
    (Mark::DOUBT, "non importa"),
    (Mark::EXCUSE, "lo faccio io, ci penso io, non serve più, non mi serve più, ho cambiato idea"),
    (
        Mark::CONTINUE,
        "continua, continuare, prosegui, vai avanti, avanti, procedi, di nuovo, \
        ancora una volta, riprova",
    ),
    (Mark::HESITATE, "aspetta, aspetti, un attimo, un momento"),
    (Mark::DOUBT, "forse, non so, non lo so, non sono sicuro, boh, mah"),
    (Mark::GREET, "ciao, salve, buongiorno, buonasera"),
    (
        Mark::FILLER,
        "per favore, per piacere, questo, quello, è, tutto, ora, adesso, qui, qua, così, molto, \
        davvero, \
        il compito, lattività, questo compito, per me, di tutto, per laiuto, allora, pure, subito",
    ),
    (Mark::OPENER, "per favore, per piacere, allora, beh, dai, solo"),
    (Mark::TIE, "ma, però, anche, inoltre, invece, tuttavia, tranne, oppure"),
    (Mark::JOIN, "e, ma, poi, e poi, e anche, ma anche"),
    (
        Mark::TOPIC,
        "nuovo compito, nuova attività, prossimo compito, prossima attività, altro compito, \
        altro argomento, \
        argomento diverso, nuovo argomento, cambio argomento, cambiando argomento, qualcosaltro, \
        qualcosa di diverso, qualcosa di nuovo, altra cosa, unaltra cosa",
    ),
    (
        Mark::MOVE_ON,
        "passiamo a, passiamo al, passiamo ad altro, cambiamo argomento, ho un nuovo compito",
    ),
    (Mark::NOW, "ora, adesso"),
    (
        Mark::REQUEST.or(Mark::MAKE),
        "aggiungi, crea, costruisci, scrivi, implementa, sviluppa, correggi, ripara, integra, \
        genera, progetta, \
        riscrivi, sistema",
    ),
    (
        Mark::REQUEST,
        "fai, metti, cambia, modifica, usa, utilizza, rimuovi, elimina, cancella, rinomina, \
        sostituisci, sposta, \
        prova, esegui, imposta, togli",
    ),
    (
        Mark::ASK,
        "cosa, che cosa, che, perché, come, quando, dove, chi, quale, quali, quanto, quanti",
    ),
    (
        Mark::ASK_SURE,
        "perché hai, cosa significa, cosè, cosa è, cosa fa, come funziona, cosa vuol dire, \
        che cosè, qual è, dovè",
    ),
    (
        Mark::ASK_FAR,
        "cosa intendi, cosa vuoi dire, non capisco, non ho capito, che significa, che vuol dire",
    ),
    (Mark::ASK_VERB, "è, hai, ha, ci sono, cè, funziona, sono"),
    (Mark::POLITE, "puoi, potresti, può, potrebbe, possiamo, potremmo, voglio, vorrei, ho bisogno"),
    (Mark::SUGGEST, "perché non usiamo, perché non, che ne dici di, e se usassimo"),
    (
        Mark::EXPLAIN,
        "mostra, mostrami, spiega, spiegami, dimmi, descrivi, riassumi, fammi vedere, mostrarmi, \
        spiegarmi, dirmi, \
        farmi vedere",
    ),
    (Mark::STATUS, "stato, a che punto sei, come procede, come va"),
    (Mark::DEICTIC, "questo, questa, quello, quella, quel, lo, anche, di nuovo, invece"),
    (Mark::SUPPORT, "i test, dei test, documentazione, commenti"),
];
