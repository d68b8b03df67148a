//! Turkish, Hindi and Arabic markers.

use super::{List, Mark};

/// Turkish, Hindi (in both of its scripts) and Arabic phrases.
pub(super) const LISTS: &[List] = &[
    // Turkish
    (
        Mark::YES,
        "evet, olur, tamam, tamamdır, tabii, tabii ki, elbette, kesinlikle, doğru, aynen, peki, \
        katılıyorum, \
        evet lütfen",
    ),
    (Mark::CONTINUE, "devam edebilirsin, yap, yap gitsin, hadi yap"),
    (
        Mark::NO,
        "hayır, yok, yanlış, olmaz, olmamış, henüz değil, hayır teşekkürler, iyi değil, kötü",
    ),
    (
        Mark::APPROVE,
        "iyi görünüyor, güzel görünüyor, harika görünüyor, iyi, çok iyi, güzel, çok güzel, \
        harika, mükemmel, \
        süper, şahane, muhteşem, bitti, oldu, tamamlandı, hepsi bu, bu kadar, başka bir şey yok, \
        iyi iş, \
        eline sağlık, ellerine sağlık, çalışıyor, beğendim, onaylıyorum, onaylandı, kabul, \
        sorun yok, \
        böyle kalsın, süpersin",
    ),
    (
        Mark::THANKS,
        "teşekkürler, teşekkür ederim, çok teşekkürler, sağ ol, sağol, sağ olun, eyvallah, \
        ve teşekkürler",
    ),
    (Mark::ACKNOWLEDGE, "anladım"),
    (
        Mark::ABANDON,
        "iptal, iptal et, iptal edin, iptal edelim, bunu iptal et, vazgeç, vazgeçtim, \
        vazgeçelim, boş ver, boşver, \
        dur, dur artık, durdur, durun, unut, unut gitsin, unut bunu, bunu unut, bırak, \
        bırak gitsin, bırakalım, \
        kes artık",
    ),
    (Mark::NO, "gerek yok"),
    (Mark::DOUBT, "fark etmez, önemli değil"),
    (Mark::EXCUSE, "kendim yaparım, artık gerek yok, fikrimi değiştirdim"),
    (Mark::CONTINUE, "devam, devam et, devam edin, sürdür, tekrar dene, bir daha dene"),
    (Mark::HESITATE, "bekle, bir dakika, bir saniye, şey"),
    (Mark::DOUBT, "belki, bilmiyorum, emin değilim"),
    (Mark::GREET, "merhaba, selam, günaydın, iyi günler, iyi akşamlar"),
    (
        Mark::FILLER,
        "lütfen, bu, şu, şimdi, burada, çok, gerçekten, hepsi, her şey, bence, artık, işte, \
        için, yardımın için, \
        ya",
    ),
    (Mark::OPENER, "lütfen, şimdi lütfen, peki, tamam, işte, bence"),
    (Mark::TIE, "ama, fakat, ayrıca, yerine, ancak, ve, bir de, hem de"),
    (Mark::JOIN, "ve, ama, sonra, ayrıca, bir de"),
    (
        Mark::TOPIC,
        "yeni görev, sıradaki görev, sonraki görev, başka görev, farklı konu, başka konu, \
        yeni konu, \
        başka bir şey, farklı bir konu, başka bir konu, konu dışı, alakasız",
    ),
    (Mark::MOVE_ON, "konuyu değiştirelim, başka bir şeye geçelim, yeni bir görevim var"),
    (Mark::NOW_FAR, "şimdi, şimdi de, sırada"),
    (
        Mark::REQUEST.or(Mark::MAKE),
        "ekle, ekler misin, oluştur, yaz, geliştir, uygula, tasarla, düzelt, kur, inşa et, \
        entegre et",
    ),
    (Mark::REQUEST, "yap, değiştir, kullan, sil, kaldır, taşı, çalıştır, dene, ayarla"),
    (Mark::ASK, "ne, neden, niye, niçin, nasıl, nerede, kim, hangi, hangisi, kaç"),
    (Mark::ASK_SURE, "neden, niye, niçin, nasıl çalışıyor"),
    (
        Mark::ASK_FAR,
        "ne demek, ne demek istiyorsun, anlamadım, nedir, ne oldu, ne yaptın, ne durumda",
    ),
    (
        Mark::POLITE_FAR,
        "misin, mısın, musun, müsün, misiniz, mısınız, musunuz, müsünüz, neden kullanmıyoruz, \
        istiyorum",
    ),
    (
        Mark::EXPLAIN_FAR,
        "göster, bana göster, göster bana, gösterir misin, açıkla, açıklar mısın, anlat, \
        anlatır mısın, \
        söyler misin, özetle",
    ),
    (Mark::STATUS, "durum, durum ne, ilerleme"),
    (Mark::DEICTIC, "onu, bunu, şunu, bu, şu, tekrar"),
    (Mark::SUPPORT, "test, testler, testleri, dokümantasyon"),
    // Hindi
    (
        Mark::YES,
        "हाँ, हां, जी, जी हाँ, जी हां, ठीक, ठीक है, बिल्कुल, ज़रूर, सही, सही है, हा, haan, \
        theek hai, thik hai, \
        bilkul",
    ),
    (Mark::CONTINUE, "करो, कर दो, आगे बढ़ो, kar do"),
    (Mark::NO, "नहीं, ना, जी नहीं, गलत, गलत है, अभी नहीं, nahi, nahin"),
    (
        Mark::APPROVE,
        "अच्छा है, अच्छा, बहुत अच्छा, बहुत अच्छा है, बढ़िया, बहुत बढ़िया, शानदार, उत्तम, \
        परफेक्ट, हो गया, \
        पूरा हो गया, बस इतना ही, अच्छा लग रहा है, अच्छा दिख रहा है, काम कर रहा है, स्वीकृत, \
        मंज़ूर, शाबाश, \
        accha hai, bahut accha, badhiya, ho gaya",
    ),
    (
        Mark::THANKS,
        "धन्यवाद, शुक्रिया, बहुत धन्यवाद, बहुत बहुत धन्यवाद, थैंक्यू, और धन्यवाद, dhanyavaad, \
        dhanyavad, shukriya",
    ),
    (Mark::ACKNOWLEDGE, "समझ गया"),
    (
        Mark::ABANDON,
        "रहने दो, रहने दीजिए, छोड़ो, छोड़ दो, छोड़ दीजिए, रद्द, रद्द करो, रद्द करें, रद्द कर दो, \
        कैंसल, कैंसल करो, \
        रुक जाओ, बंद करो, बंद कर दो, भूल जाओ, जाने दो, rehne do, chhodo, chhod do, cancel karo, \
        cancel kar do, \
        jaane do, bhool jao",
    ),
    (Mark::ACKNOWLEDGE, "कोई बात नहीं, koi baat nahi"),
    (Mark::CONTINUE, "जारी रखो, जारी रखें, आगे, चालू रखो, फिर से कोशिश करो, jaari rakho"),
    (Mark::HESITATE, "रुको, एक मिनट, हम्म"),
    (Mark::DOUBT, "शायद, पता नहीं, मुझे नहीं पता"),
    (Mark::GREET, "नमस्ते, नमस्कार, namaste"),
    (
        Mark::FILLER,
        "कृपया, यह, ये, वह, इसे, इसको, है, अब, बहुत, सब, सब कुछ, जी, अभी, यहाँ, ही, बस, भाई, तो",
    ),
    (Mark::OPENER, "कृपया, तो, अच्छा, ठीक है, भाई"),
    (Mark::TIE, "लेकिन, मगर, भी, और, इसके बजाय, साथ ही, पर, बल्कि, lekin, aur"),
    (Mark::JOIN, "और, लेकिन, फिर, lekin, aur"),
    (
        Mark::TOPIC,
        "नया काम, नया टास्क, नया कार्य, अगला काम, अगला कार्य, अगला टास्क, दूसरा काम, अलग विषय, \
        दूसरा विषय, \
        नया विषय, कुछ और, कुछ अलग, naya kaam, naya task, kuch aur",
    ),
    (Mark::MOVE_ON, "चलो कुछ और करते हैं, विषय बदलते हैं"),
    (Mark::NOW_FAR, "अब, इसके बाद"),
    (
        Mark::REQUEST.or(Mark::MAKE),
        "जोड़ो, जोड़ें, जोड़ दो, बनाओ, बनाएं, बनाइए, लिखो, लिखें, लिखिए, ठीक करो, jodo, banao, \
        likho",
    ),
    (Mark::REQUEST, "बदलो, बदलें, हटाओ, हटाएं, इस्तेमाल करो, उपयोग करो, चलाओ, badlo, hatao"),
    (
        Mark::ASK_FAR,
        "क्या मतलब, मतलब क्या, क्यों, कैसे, कौन, कहाँ, कहां, कब, क्या है, समझ नहीं आया, \
        नहीं समझा, kya matlab, \
        kyon, kyun, kaise",
    ),
    (Mark::ASK, "क्या, kya"),
    (
        Mark::POLITE_FAR,
        "क्या आप, क्या तुम, सकते हैं, सकते हो, सकती हैं, दीजिए, कीजिए, क्यों न, \
        क्यों नहीं हम",
    ),
    (
        Mark::EXPLAIN_FAR,
        "दिखाओ, दिखाएं, दिखाइए, मुझे दिखाओ, समझाओ, समझाएं, समझाइए, बताओ, बताएं, बताइए, dikhao, \
        samjhao, batao",
    ),
    (Mark::STATUS, "स्थिति, प्रगति"),
    (Mark::DEICTIC, "इसे, इसको, उसे, उसको, यह, वह, इस, उस, ये, भी, फिर, ise, isko"),
    (Mark::SUPPORT, "टेस्ट, दस्तावेज़"),
    // Arabic
    (
        Mark::YES,
        "نعم, أجل, ايوه, أيوة, ايوا, حسنا, حسناً, طيب, تمام, موافق, موافقة, بالتأكيد, طبعا, \
        أكيد, صحيح, ماشي, \
        نعم من فضلك",
    ),
    (Mark::CONTINUE, "تفضل, افعل ذلك, نفذ"),
    (Mark::NO, "لا, كلا, لا شكرا, ليس بعد, خطأ, ليس جيدا, هذا خطأ, مش كويس"),
    (
        Mark::APPROVE,
        "يبدو جيدا, يبدو جيداً, يبدو رائعا, جيد, جيد جدا, ممتاز, رائع, مثالي, مذهل, عظيم, تم, \
        انتهى, انتهيت, \
        اكتمل, هذا كل شيء, عمل رائع, عمل جيد, أحسنت, يعمل, إنه يعمل, أعجبني, معتمد, مقبول, \
        لا تغييرات, \
        كل شيء تمام, اتركه كما هو, بدون مشاكل",
    ),
    (Mark::THANKS, "شكرا, شكراً, شكرا لك, شكرا جزيلا, شكرا كثيرا, وشكرا, مشكور, يعطيك العافية"),
    (Mark::ACKNOWLEDGE, "فهمت"),
    (
        Mark::ABANDON,
        "إلغاء, ألغ, ألغي, الغيه, ألغه, ألغ ذلك, ألغ هذا, ألغ المهمة, إلغاء المهمة, توقف, قف, \
        أوقف, أوقفه, \
        توقف عن ذلك, انس, انسى, انس الأمر, انسى الأمر, انساه, دعك من هذا, دعك من ذلك, خلاص انسى, \
        اترك الأمر",
    ),
    (Mark::ABANDON_WEAK, "لا تهتم"),
    (Mark::DOUBT, "لا يهم, غير مهم"),
    (Mark::EXCUSE, "سأفعله بنفسي, لم أعد بحاجة إليه, غيرت رأيي"),
    (Mark::CONTINUE, "استمر, تابع, واصل, أكمل, كمل, حاول مرة أخرى, مرة أخرى"),
    (Mark::HESITATE, "انتظر, لحظة, دقيقة, همم"),
    (Mark::DOUBT, "ربما, لا أعرف, لا أدري, لست متأكدا"),
    (Mark::GREET, "مرحبا, أهلا, السلام عليكم, صباح الخير, مساء الخير"),
    (
        Mark::FILLER,
        "من فضلك, رجاء, رجاءً, لو سمحت, هذا, ذلك, هو, كل شيء, الآن, هنا, جدا, حقا, فقط, المهمة, \
        هذه المهمة, \
        على المساعدة, كله",
    ),
    (Mark::OPENER, "من فضلك, رجاء, لو سمحت, حسنا, طيب, فقط, إذن"),
    (Mark::TIE, "لكن, ولكن, أيضا, وأيضا, بدلا, بدل, كذلك, و, أو, إلا"),
    (Mark::JOIN, "ثم, لكن, ولكن, وأيضا, و"),
    (
        Mark::TOPIC,
        "مهمة جديدة, المهمة التالية, مهمة أخرى, موضوع آخر, موضوع مختلف, موضوع جديد, شيء آخر, \
        شيء مختلف, \
        تغيير الموضوع",
    ),
    (Mark::MOVE_ON, "لننتقل إلى, دعنا ننتقل إلى, لنغير الموضوع, لدي مهمة جديدة"),
    (Mark::NOW, "الآن, والآن, بعد ذلك"),
    (
        Mark::REQUEST.or(Mark::MAKE),
        "أضف, اضف, أنشئ, انشئ, اكتب, نفذ, ابن, طور, صمم, أصلح, اصلح, ادمج",
    ),
    (Mark::REQUEST, "غير, اجعل, اجعله, استخدم, احذف, أزل, استبدل, انقل, شغل, جرب, عدل"),
    (Mark::ASK, "ما, ماذا, لماذا, كيف, متى, أين, من, هل, أي, كم, ليش, ليه"),
    (Mark::ASK_SURE, "لماذا, ماذا يعني, ما معنى, ما هو, ما هي, كيف يعمل, ليش, ليه"),
    (Mark::ASK_FAR, "ماذا تقصد, ماذا تعني, لا أفهم, لم أفهم, ماذا يعني هذا"),
    (Mark::POLITE, "هل يمكنك, هل تستطيع, هل يمكن, يمكنك, ممكن, أريد, أحتاج, أريدك أن"),
    (Mark::SUGGEST, "لماذا لا نستخدم, لماذا لا, ماذا عن, ما رأيك في"),
    (
        Mark::EXPLAIN,
        "أرني, ارني, اعرض لي, وريني, اشرح, اشرح لي, أخبرني, اخبرني, قل لي, وضح, لخص, صف, \
        أن تشرح, أن تريني, شرح",
    ),
    (Mark::STATUS, "الحالة, التقدم, ما الحالة"),
    (Mark::DEICTIC, "هذا, هذه, ذلك, تلك, أيضا, مجددا, إياه"),
    (Mark::SUPPORT, "اختبارات, الاختبارات, توثيق, تعليقات"),
];
