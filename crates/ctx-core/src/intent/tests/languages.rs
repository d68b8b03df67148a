//! The same requirements in the other supported languages.

use super::{ASK, END, OLD, RUN, check};
use super::{Abandon, Clarification, Confirmation, Modification, NewTask, Response, Unclear};

#[test]
fn german() {
    check(&[
        ("ja", ASK, Response),
        ("Nimm exponentiell", ASK, Response),
        ("was meinst du?", ASK, Clarification),
        ("Ja", END, Confirmation),
        ("Sieht gut aus", END, Confirmation),
        ("Perfekt, danke!", END, Confirmation),
        ("Schön", END, Confirmation),
        ("Schoen, vielen Dank", END, Confirmation),
        ("perfket", END, Confirmation),
        ("Sieht gut aus, aber füge noch Logging hinzu", END, Modification),
        ("nicht gut", END, Modification),
        ("nein", END, Modification),
        ("Abbrechen", RUN, Abandon),
        ("hör auf", RUN, Abandon),
        ("hoer bitte auf", RUN, Abandon),
        ("Vergiss es", RUN, Abandon),
        ("hör auf, Tabs zu benutzen", RUN, Modification),
        ("egal", ASK, Response),
        ("egal", RUN, Unclear),
        ("Jetzt füge Pooling hinzu", RUN, NewTask),
        ("Neue Aufgabe: schreibe einen Parser", RUN, NewTask),
        ("Anderes Thema: der Parser", RUN, NewTask),
        ("jetzt mach es auf 5", RUN, Modification),
        ("Kannst du Logging hinzufügen?", RUN, Modification),
        ("koenntest du es umbenennen?", RUN, Modification),
        ("Was bedeutet das?", RUN, Clarification),
        ("Zeig mir den Code", RUN, Clarification),
        ("Kannst du mir das erklären?", RUN, Clarification),
        ("weiter", RUN, Modification),
        ("ja nein", END, Unclear),
        ("Schreibe einen Parser", None, NewTask),
        ("danke", OLD, Confirmation),
    ]);
}

#[test]
fn dutch() {
    check(&[
        ("ja", ASK, Response),
        ("ziet er goed uit", END, Confirmation),
        ("perfect, bedankt", END, Confirmation),
        ("goed, maar voeg ook logging toe", END, Modification),
        ("laat maar", RUN, Abandon),
        ("annuleer", RUN, Abandon),
        ("stop met tabs", RUN, Modification),
        ("nieuwe taak: schrijf een parser", RUN, NewTask),
        ("nu voeg pooling toe", RUN, NewTask),
        ("kun je logging toevoegen?", RUN, Modification),
        ("wat betekent dat?", RUN, Clarification),
        ("toon me de code", RUN, Clarification),
        ("ga door", RUN, Modification),
    ]);
}

#[test]
fn french() {
    check(&[
        ("oui", ASK, Response),
        ("l'option B", ASK, Response),
        ("oui", END, Confirmation),
        ("Parfait, merci !", END, Confirmation),
        ("ça a l'air bien", END, Confirmation),
        ("ca a l'air bien", END, Confirmation),
        ("c'est pas bon", END, Modification),
        ("Parfait, mais ajoute aussi des logs", END, Modification),
        ("Laisse tomber", RUN, Abandon),
        ("annule", RUN, Abandon),
        ("arrete", RUN, Abandon),
        ("arrête d'utiliser des tabulations", RUN, Modification),
        ("Nouvelle tâche : écris un parseur", RUN, NewTask),
        ("nouvelle tache: ecris un parseur", RUN, NewTask),
        ("Maintenant ajoute le pooling", RUN, NewTask),
        ("Peux-tu ajouter des logs ?", RUN, Modification),
        ("Qu'est-ce que ça veut dire ?", RUN, Clarification),
        ("Montre-moi le code", RUN, Clarification),
        ("Peux-tu m'expliquer le cache ?", RUN, Clarification),
        ("pourquoi pas utiliser un canal ?", RUN, Modification),
        ("continue", RUN, Modification),
        ("oui non", END, Unclear),
    ]);
}

#[test]
fn spanish() {
    check(&[
        ("sí", ASK, Response),
        ("no importa", ASK, Response),
        ("si", END, Confirmation),
        ("Perfecto, gracias", END, Confirmation),
        ("se ve bien", END, Confirmation),
        ("está mal, gracias", END, Modification),
        ("no está bien", END, Modification),
        ("no funciona", END, Modification),
        ("perfecto, pero agrega también logs", END, Modification),
        ("Olvídalo", RUN, Abandon),
        ("cancela", RUN, Abandon),
        ("no cancelar", RUN, Modification),
        ("cancela la petición anterior", RUN, Modification),
        ("nueva tarea: escribe un parser", RUN, NewTask),
        ("Ahora añade pooling", RUN, NewTask),
        ("ahora cámbialo", RUN, Modification),
        ("¿Puedes agregar logs?", RUN, Modification),
        ("¿Qué significa eso?", RUN, Clarification),
        ("Muéstrame el código", RUN, Clarification),
        ("¿por qué no usamos un canal?", RUN, Modification),
        ("sigue", RUN, Modification),
    ]);
}

#[test]
fn portuguese() {
    check(&[
        ("sim", ASK, Response),
        ("sim", END, Confirmation),
        ("Perfeito, obrigado!", END, Confirmation),
        ("ficou otimo", END, Confirmation),
        ("não está bom", END, Modification),
        ("perfeito, mas adicione logs", END, Modification),
        ("deixa pra lá", RUN, Abandon),
        ("esquece", RUN, Abandon),
        ("não cancelar", RUN, Modification),
        ("pare de usar tabs", RUN, Modification),
        ("nova tarefa: escreva um parser", RUN, NewTask),
        ("agora adicione o pooling", RUN, NewTask),
        ("você pode adicionar logs?", RUN, Modification),
        ("o que significa isso?", RUN, Clarification),
        ("me mostra o código", RUN, Clarification),
    ]);
}

#[test]
fn italian() {
    check(&[
        ("sì", ASK, Response),
        ("va bene", END, Confirmation),
        ("Perfetto, grazie mille", END, Confirmation),
        ("non va bene", END, Modification),
        ("perfetto, ma aggiungi anche i log", END, Modification),
        ("lascia perdere", RUN, Abandon),
        ("annulla", RUN, Abandon),
        ("annulla la richiesta precedente", RUN, Modification),
        ("nuovo compito: scrivi un parser", RUN, NewTask),
        ("ora aggiungi il pooling", RUN, NewTask),
        ("puoi aggiungere i log?", RUN, Modification),
        ("cosa significa?", RUN, Clarification),
        ("mostrami il codice", RUN, Clarification),
    ]);
}

#[test]
fn polish() {
    check(&[
        ("tak", ASK, Response),
        ("nieważne", ASK, Response),
        ("nieważne", RUN, Abandon),
        ("wygląda dobrze", END, Confirmation),
        ("wyglada dobrze, dzieki", END, Confirmation),
        ("Świetnie!", END, Confirmation),
        ("nie działa", END, Modification),
        ("świetnie, ale dodaj też logi", END, Modification),
        ("anuluj", RUN, Abandon),
        ("nie anuluj", RUN, Modification),
        ("daj spokój", RUN, Abandon),
        ("przestań używać tabulatorów", RUN, Modification),
        ("nowe zadanie: napisz parser", RUN, NewTask),
        ("teraz dodaj pooling", RUN, NewTask),
        ("teraz napraw to", RUN, Modification),
        ("czy możesz dodać logi?", RUN, Modification),
        ("co to znaczy?", RUN, Clarification),
        ("pokaż mi kod", RUN, Clarification),
        ("tak nie", END, Unclear),
    ]);
}

#[test]
fn russian() {
    check(&[
        ("да", ASK, Response),
        ("вариант Б", ASK, Response),
        ("Отлично, спасибо!", END, Confirmation),
        ("выглядит хорошо", END, Confirmation),
        ("спасбо", RUN, Confirmation),
        ("не работает", END, Modification),
        ("не готово", END, Modification),
        ("Отлично, но добавь ещё логи", END, Modification),
        ("отмена", RUN, Abandon),
        ("забудь об этом", RUN, Abandon),
        ("хватит использовать табы", RUN, Modification),
        ("не останавливайся", RUN, Modification),
        ("новая задача: напиши парсер", RUN, NewTask),
        ("Теперь добавь пул соединений", RUN, NewTask),
        ("теперь исправь этот тест", RUN, Modification),
        ("можешь добавить логи?", RUN, Modification),
        ("почему бы не использовать канал?", RUN, Modification),
        ("Что это значит?", RUN, Clarification),
        ("покажи мне код", RUN, Clarification),
        ("продолжай", RUN, Modification),
        ("напиши парсер", None, NewTask),
    ]);
}

#[test]
fn ukrainian() {
    check(&[
        ("так", ASK, Response),
        ("так", END, Confirmation),
        ("Чудово, дякую!", END, Confirmation),
        ("виглядає добре", END, Confirmation),
        ("чудово, але додай ще логи", END, Modification),
        ("скасуй", RUN, Abandon),
        ("забудь про це", RUN, Abandon),
        ("скасуй попередній запит", RUN, Modification),
        ("нове завдання: напиши парсер", RUN, NewTask),
        ("тепер додай пул", RUN, NewTask),
        ("чи можеш додати логи?", RUN, Modification),
        ("що це означає?", RUN, Clarification),
        ("покажи мені код", RUN, Clarification),
        ("так ні", END, Unclear),
    ]);
}

#[test]
fn japanese() {
    check(&[
        ("はい", ASK, Response),
        ("指数バックオフで", ASK, Response),
        ("どういう意味ですか？", ASK, Clarification),
        ("はい", END, Confirmation),
        ("完璧です、ありがとうございます！", END, Confirmation),
        ("いいですね", END, Confirmation),
        ("よくない", END, Modification),
        ("いいですね。でもログも追加してください", END, Modification),
        ("やめてください", RUN, Abandon),
        ("キャンセル", RUN, Abandon),
        ("キャンセルしないで", RUN, Modification),
        ("タブを使うのをやめて", RUN, Modification),
        ("新しいタスク：パーサーを書いて", RUN, NewTask),
        ("別件ですが、ログインが壊れています", RUN, NewTask),
        ("次はプーリングを追加して", RUN, NewTask),
        ("ログを追加してくれますか？", RUN, Modification),
        ("コードを見せて", RUN, Clarification),
        ("なぜミューテックスを使ったの？", RUN, Clarification),
        ("続けて", RUN, Modification),
        ("パーサーを書いて", None, NewTask),
    ]);
}

#[test]
fn chinese() {
    check(&[
        ("是的", ASK, Response),
        ("用指数退避", ASK, Response),
        ("什么意思？", ASK, Clarification),
        ("好的", END, Confirmation),
        ("看起来不错", END, Confirmation),
        ("看起來不錯，謝謝", END, Confirmation),
        ("完美，谢谢！", END, Confirmation),
        ("没问题", END, Confirmation),
        ("不好", END, Modification),
        ("不完美", END, Modification),
        ("很好，但是还要加日志", END, Modification),
        ("算了", RUN, Abandon),
        ("取消", RUN, Abandon),
        ("取消吧", RUN, Abandon),
        ("取消按钮太小", RUN, Modification),
        ("不要停", RUN, Modification),
        ("停止使用制表符", RUN, Modification),
        ("不用了", ASK, Response),
        ("不用了", RUN, Modification),
        ("没关系", RUN, Confirmation),
        ("新任务：写一个解析器", RUN, NewTask),
        ("新任務：寫一個解析器", RUN, NewTask),
        ("换个话题", RUN, NewTask),
        ("现在添加连接池", RUN, NewTask),
        ("现在把它改成5", RUN, Modification),
        ("你能加日志吗？", RUN, Modification),
        ("这是什么意思？", RUN, Clarification),
        ("给我看代码", RUN, Clarification),
        ("请解释一下", RUN, Clarification),
        ("继续", RUN, Modification),
        ("请写一个解析器", OLD, NewTask),
        ("谢谢", OLD, Confirmation),
    ]);
}

#[test]
fn korean() {
    check(&[
        ("네", ASK, Response),
        ("네", END, Confirmation),
        ("완벽해요, 감사합니다!", END, Confirmation),
        ("좋아 보여요", END, Confirmation),
        ("안 좋아요", END, Modification),
        ("좋아요, 그런데 로그도 추가해줘", END, Modification),
        ("취소해 줘", RUN, Abandon),
        ("그만", RUN, Abandon),
        ("취소 버튼을 추가해줘", RUN, Modification),
        ("새 작업: 파서를 작성해줘", RUN, NewTask),
        ("이제 풀링을 추가해줘", RUN, NewTask),
        ("로그를 추가해 줄 수 있어?", RUN, Modification),
        ("무슨 뜻이야?", RUN, Clarification),
        ("코드를 보여줘", RUN, Clarification),
        ("계속해", RUN, Modification),
    ]);
}

#[test]
fn turkish() {
    check(&[
        ("evet", ASK, Response),
        ("Evet", END, Confirmation),
        ("İyi görünüyor, teşekkürler", END, Confirmation),
        ("iyi gorunuyor", END, Confirmation),
        ("mükemmel", END, Confirmation),
        ("iyi değil", END, Modification),
        ("güzel ama log da ekle", END, Modification),
        ("iptal et", RUN, Abandon),
        ("boş ver", RUN, Abandon),
        ("IPTAL", RUN, Abandon),
        ("önceki isteği iptal et", RUN, Modification),
        ("yeni görev: bir ayrıştırıcı yaz", RUN, NewTask),
        ("şimdi havuzlama ekle", RUN, NewTask),
        ("şimdi onu değiştir", RUN, Modification),
        ("log ekler misin?", RUN, Modification),
        ("bu ne demek?", RUN, Clarification),
        ("kodu göster", RUN, Clarification),
        ("devam et", RUN, Modification),
    ]);
}

#[test]
fn hindi() {
    check(&[
        ("हाँ", ASK, Response),
        ("ठीक है", END, Confirmation),
        ("बहुत बढ़िया, धन्यवाद!", END, Confirmation),
        ("अच्छा नहीं है", END, Modification),
        ("अच्छा नहीं", END, Modification),
        ("अच्छा है लेकिन लॉगिंग भी जोड़ो", END, Modification),
        ("रहने दो", RUN, Abandon),
        ("रद्द करो", RUN, Abandon),
        ("पिछला अनुरोध रद्द करो", RUN, Modification),
        ("नया काम: एक पार्सर लिखो", RUN, NewTask),
        ("अब पूलिंग जोड़ो", RUN, NewTask),
        ("क्या आप लॉगिंग जोड़ सकते हैं?", RUN, Modification),
        ("इसका क्या मतलब है?", RUN, Clarification),
        ("मुझे कोड दिखाओ", RUN, Clarification),
        ("जारी रखो", RUN, Modification),
    ]);
}

#[test]
fn arabic() {
    check(&[
        ("نعم", ASK, Response),
        ("ماذا تقصد؟", ASK, Clarification),
        ("ممتاز، شكرا!", END, Confirmation),
        ("يبدو جيداً", END, Confirmation),
        ("ليس جيدا", END, Modification),
        ("لا يعمل", END, Modification),
        ("ممتاز، لكن أضف السجلات أيضا", END, Modification),
        ("إلغاء", RUN, Abandon),
        ("انس الأمر", RUN, Abandon),
        ("ألغ الطلب السابق", RUN, Modification),
        ("مهمة جديدة: اكتب محللا", RUN, NewTask),
        ("الآن أضف تجميع الاتصالات", RUN, NewTask),
        ("هل يمكنك إضافة السجلات؟", RUN, Modification),
        ("ماذا يعني هذا؟", RUN, Clarification),
        ("أرني الكود", RUN, Clarification),
        ("استمر", RUN, Modification),
    ]);
}
