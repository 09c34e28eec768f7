"""Lexicon of verbs: forms in both languages, frame, and flags for the adjuncts they allow.

Row: `infinitive, third person, participle, sein ; English, past, -ing ; subjects > object case tags ; flags`.
Flags that change the forms: stative (simple present in English), self (reflexive in German), oneself (in
English too), body (`sich die Hände waschen`), played (an instrument, without article), done (perfect only),
unwilled (no modal but the future), garment (worn one each), creates (no adjectives), many (plural only),
single (singular only), unowned (no possessive), asleep (not while doing something else), present (no perfect:
`gehört` is also the perfect of hören).
Flags that name adjuncts are read in `adjuncts`.
"""

from regard.data.picturebook.lexical_entries import Verb, parse_verb, table_rows

_INTRANSITIVE = """
schlafen, schläft, geschlafen ; sleep, slept ; person baby runner farm > ; anywhere asleep
laufen, läuft, gelaufen, sein ; run, ran, running ; person runner > ; goes fast
gehen, geht, gegangen, sein ; walk ; person > ; goes fast company
springen, springt, gesprungen, sein ; jump ; person runner hopper > ; leaps
hüpfen, hüpft, gehüpft, sein ; hop, hopped, hopping ; hopper > ; goes
schwimmen, schwimmt, geschwommen, sein ; swim, swam, swimming ; swimmer person > ; swims fast
fliegen, fliegt, geflogen, sein ; fly, flew ; flyer plane > ; over
kriechen, kriecht, gekrochen, sein ; crawl ; crawler baby > ; goes
schleichen, schleicht, geschlichen, sein ; sneak ; cat predator > ; goes
galoppieren, galoppiert, galoppiert, sein ; gallop ; mount > ; over
reisen, reist, gereist, sein ; travel, traveled, traveling ; person > ; route company
marschieren, marschiert, marschiert, sein ; march ; person > ; route
wandern, wandert, gewandert, sein ; hike ; person > ; route company
fahren, fährt, gefahren, sein ; drive, drove ; road > ; route fast
klettern, klettert, geklettert, sein ; climb ; person cat > ; barred fast
tanzen ; dance ; person > ; anywhere
singen, singt, gesungen ; sing, sang ; person songbird > ; anywhere loud
lachen ; laugh ; person baby > ; anywhere loud
weinen ; cry ; person baby > ; anywhere loud unwilled
lächeln, lächelt, gelächelt ; smile ; person baby > ;
sitzen, sitzt, gesessen ; sit, sat, sitting ; person runner flyer pet > ; there
stehen, steht, gestanden ; stand, stood ; person runner farm upright road > ; there
liegen, liegt, gelegen ; lie, lay ; pet flat text clothes > ; there
arbeiten ; work ; person > ; anywhere
kochen ; cook ; person > ; indoors
bellen ; bark ; dog > ; anywhere loud unwilled
miauen, miaut, miaut ; meow ; cat > ; anywhere loud unwilled
niesen ; sneeze ; person baby runner > ; loud unwilled
gähnen ; yawn ; person baby runner > ; loud unwilled
husten ; cough ; person > ; loud unwilled
flüstern, flüstert, geflüstert ; whisper ; person > ;
schreien, schreit, geschrien ; scream ; person baby > ; anywhere
schaukeln, schaukelt, geschaukelt ; swing, swung ; person > ; yard
spielen ; play ; person pet > ; anywhere
auf|wachen, wacht, gewacht, sein ; wake up, woke ; person baby animal > ; unwilled asleep
auf|stehen, steht, gestanden, sein ; get up, got, getting ; person > ;
ein|schlafen, schläft, geschlafen, sein ; fall asleep, fell ; person baby pet > ; anywhere unwilled asleep
an|kommen, kommt, gekommen, sein ; arrive ; public person > ; station unwilled
weg|laufen, läuft, gelaufen, sein ; run away, ran, running ; runner person > ; fast
weg|fliegen, fliegt, geflogen, sein ; fly away, flew ; flyer > ; unwilled
zurück|kommen, kommt, gekommen, sein ; come back, came ; person pet > ;
hin|fallen, fällt, gefallen, sein ; fall down, fell ; person > ; anywhere unwilled
vorbei|fahren, fährt, gefahren, sein ; pass by ; road public > ; fast
ab|fahren, fährt, gefahren, sein ; depart ; public > ; station
auf|treten, tritt, getreten, sein ; perform ; trade > ; stage
setzen ; sit down, sat, sitting ; person pet > ; self down
hin|legen ; lie down, lay ; person runner > ; self
an|ziehen, zieht, gezogen ; get dressed, got, getting ; person > ; self indoors
aus|ruhen ; rest ; person runner > ; self anywhere
verstecken, versteckt, versteckt ; hide, hid ; person small cat > ; self behind
um|drehen ; turn around ; person > ; self
beeilen ; hurry ; person > ; self
verlaufen, verläuft, verlaufen ; get lost, got, getting ; person > ; self done outside
verletzen, verletzt, verletzt ; hurt, hurt, hurting ; person > ; self oneself done
waschen, wäscht, gewaschen ; wash ; person > ; self oneself
rasieren ; shave ; beard > ; self
vor|stellen ; introduce ; person > ; self oneself
"""

_TRANSITIVE = """
essen, isst, gegessen ; eat, ate ; person > acc food ; anywhere
fressen, frisst, gefressen ; eat, ate ; grazer > acc feed ; farmland
fressen, frisst, gefressen ; eat, ate ; predator > acc prey ;
trinken, trinkt, getrunken ; drink, drank ; person > acc drink ; anywhere
saufen, säuft, gesoffen ; drink, drank ; runner > acc plain ;
lesen, liest, gelesen ; read, read ; person > acc text narrative ; anywhere
schreiben, schreibt, geschrieben ; write, wrote ; person > acc written ; anywhere creates
malen ; paint ; person > acc drawn plant animal building ; anywhere care
zeichnen ; draw, drew ; person > acc vehicle tree flyer runner drawn ; care
tragen, trägt, getragen ; wear, wore ; person > acc worn clothes ; anywhere stay garment
tragen, trägt, getragen ; carry ; person > acc portable toy ; hauled care
kaufen ; buy, bought ; person > acc sold clothes ; shop benefit unowned
verkaufen ; sell, sold ; person > acc sold instrument road cycle ; shop
suchen ; look for ; person > acc portable toy pet clothes ; anywhere
finden, findet, gefunden ; find, found ; person > acc portable toy pet jewel ; outside done
sehen, sieht, gesehen ; see, saw ; person > acc person animal vehicle building ; stative outside
hören ; hear, heard ; person > acc animal person vehicle ; stative
lieben ; love ; person > acc person pet narrative ; stative
kennen, kennt, gekannt ; know, knew ; person > acc person ; stative
brauchen ; need ; person > acc portable clothes vehicle instrument ; stative
haben, hat, gehabt ; have, had ; person > acc pet vehicle portable toy jewel instrument ; stative unowned
besitzen, besitzt, besessen ; own ; person > acc vehicle farm instrument ; stative unowned
waschen, wäscht, gewaschen ; wash ; person > acc vehicle clothes dish dog ; yard care
putzen ; clean ; person > acc furniture room vehicle ; care
reparieren ; repair ; person > acc vehicle furniture gear barrier ; care
bauen ; build, built ; person > acc built boat barrier ; outside benefit creates
schneiden, schneidet, geschnitten ; cut, cut, cutting ; person > acc fruit ripe baked ; knife care
backen, backt, gebacken ; bake ; person > acc baked ; indoors benefit
holen ; fetch ; person > acc portable drink dish ;
werfen, wirft, geworfen ; throw, threw ; person > acc thrown ; flung
fangen, fängt, gefangen ; catch, caught ; person > acc thrown caught ; outside
halten, hält, gehalten ; hold, held ; person > acc portable toy small pet ; care
ziehen, zieht, gezogen ; pull ; person mount > acc heavy ; hauled
schieben, schiebt, geschoben ; push ; person > acc cycle road ; hauled
öffnen ; open ; person > acc opened wrapped ; care
schließen, schließt, geschlossen ; close ; person > acc opened ; care
füttern, füttert, gefüttert ; feed, fed ; person > acc animal ; anywhere
streicheln, streichelt, gestreichelt ; stroke ; person > acc pet farm runner ; care
umarmen, umarmt, umarmt ; hug, hugged, hugging ; person > acc person ;
küssen ; kiss ; person > acc person baby ;
besuchen ; visit ; person > acc person building ;
begrüßen, begrüßt, begrüßt ; greet ; person > acc person ; outside
beobachten ; watch ; person animal > acc animal person ; outside
fotografieren ; photograph ; person > acc person animal building vehicle bloom ; outside
jagen ; chase ; predator person > acc runner small ; outside
retten ; rescue ; person > acc person animal ;
wecken ; wake, woke ; person > acc person baby pet ;
verstecken, versteckt, versteckt ; hide, hid ; person > acc portable toy jewel ; indoors
verlieren, verliert, verloren ; lose, lost ; person > acc portable toy clothes jewel ; done outside
vergessen, vergisst, vergessen ; forget, forgot, forgetting ; person > acc portable clothes ; done
zerbrechen, zerbricht, zerbrochen ; break, broke ; person > acc broken ; done unwilled
stehlen, stiehlt, gestohlen ; steal, stole ; person > acc jewel road cycle food ; done unowned
benutzen ; use ; person > acc gear dish ;
bewundern, bewundert, bewundert ; admire ; person > acc building clothes bloom jewel ;
schmücken ; decorate ; person > acc room tree ; care
bestellen ; order ; person > acc food drink ; unowned
probieren ; taste ; person > acc food drink ;
bürsten ; brush ; person > acc dog mount ; anywhere care
pflücken ; pick ; person > acc bloom fruit ; garden benefit many
gießen, gießt, gegossen ; water ; person > acc bloom ; garden
ernten ; harvest ; person > acc crop fruit ; garden many
melken, melkt, gemolken ; milk ; person > acc cow ; barn
auf|heben, hebt, gehoben ; pick up ; person > acc portable toy clothes ; care
auf|hängen ; hang up, hung ; person > acc hung ;
an|ziehen, zieht, gezogen ; put on, put, putting ; person > acc dressed paired ; garment
aus|ziehen, zieht, gezogen ; take off, took ; person > acc dressed paired ; garment
auf|setzen ; put on, put, putting ; person > acc headwear ; garment
ab|setzen ; take off, took ; person > acc headwear ; garment
aus|packen ; unpack, unpacked ; person > acc luggage ; indoors
ein|packen ; wrap up, wrapped, wrapping ; person > acc toy text jewel ;
an|schauen ; look at ; person > acc drawn text building bloom ;
mit|nehmen, nimmt, genommen ; take along, took ; person > acc portable toy pet clothes ;
mit|bringen, bringt, gebracht ; bring along, brought ; person > acc food drink toy text ;
weg|werfen, wirft, geworfen ; throw away, threw ; person > acc paired dish text flat ;
weg|tragen, trägt, getragen ; carry away ; person > acc heavy ;
ein|laden, lädt, geladen ; invite ; person > acc kin trade ;
an|rufen, ruft, gerufen ; call ; person > acc kin trade ;
an|zünden ; light, lit ; person > acc lit ; care
ab|waschen, wäscht, gewaschen ; wash up ; person > acc dish ; indoors care
auf|essen, isst, gegessen ; eat up, ate ; person > acc food ;
aus|trinken, trinkt, getrunken ; drink up, drank ; person > acc drink ;
spielen ; play ; person > acc instrument ; played anywhere
üben ; practice ; person > acc instrument ; played anywhere
waschen, wäscht, gewaschen ; wash ; person > acc washable ; self body
putzen ; brush ; person > acc brushable ; self body
kämmen ; comb ; person > acc combable ; self body
legen ; lay, laid ; person > acc flat text ; onto
stellen ; put, put, putting ; person > acc upright ; onto
"""

_INDIRECT = """
helfen, hilft, geholfen ; help ; person > dat person ; anywhere
danken ; thank ; person > dat person ;
folgen, folgt, gefolgt, sein ; follow ; person runner > dat person runner ; outside
antworten ; answer ; person > dat person ;
gratulieren ; congratulate ; person > dat person ;
begegnen, begegnet, begegnet, sein ; meet, met ; person > dat person animal ; outside
winken ; wave to ; person > dat person ; outside
zu|hören ; listen to ; person > dat person flyer ; anywhere
gehören, gehört, gehört ; belong to ; vehicle portable toy clothes > dat person ; stative present
geben, gibt, gegeben ; give, gave ; person > both food toy portable drink ; anywhere
zeigen ; show ; person > both drawn toy text portable building ; anywhere
bringen, bringt, gebracht ; bring, brought ; person > both food drink dish toy ;
schicken ; send, sent ; person > both text toy ;
leihen, leiht, geliehen ; lend, lent ; person > both cycle gear text ;
erzählen ; tell, told ; person > both narrative ; anywhere
vor|lesen, liest, gelesen ; read, read ; parent kin > both text narrative ; anywhere
an|bieten, bietet, geboten ; offer ; person > both food drink ; indoors
warten ; wait ; person > auf+acc/for person public ; outside
spielen ; play ; person > mit+dat/with toy pet kin ; anywhere
sprechen, spricht, gesprochen ; talk ; person > mit+dat/to person ; anywhere loud
tanzen ; dance ; person > mit+dat/with person ; anywhere
denken, denkt, gedacht ; think, thought ; person > an+acc/of person pet ;
lachen ; laugh ; person > über+acc/at person animal ; loud
träumen ; dream ; person > von+dat/of person vehicle animal jewel ;
riechen, riecht, gerochen ; sniff ; runner > an+dat/at bloom clothes food ;
klopfen ; knock ; person > an+acc/on fixed ; loud
ein|steigen, steigt, gestiegen, sein ; get, got, getting ; person > in+acc/into road plane public ; single
aus|steigen, steigt, gestiegen, sein ; get, got, getting ; person > aus+dat/out_of road plane public ; single
kümmern, kümmert, gekümmert ; take care, took ; person > um+acc/of baby animal ; self
erinnern, erinnert, erinnert ; remember ; person > an+acc/- person ; self stative
fürchten ; fear ; person > vor+dat/- wild ; self stative
verabschieden, verabschiedet, verabschiedet ; say goodbye, said ; person > von+dat/to person ; self
"""

_CLAUSAL = """
sagen ; say, said ; person > ; stative
glauben ; believe ; person > ; stative
wissen, weiß, gewusst ; know, knew ; person > ; stative
hoffen ; hope ; person > ; stative
denken, denkt, gedacht ; think, thought ; person > ; stative
"""

_WEATHER = """
regnen, regnet, geregnet ; rain ; > ;
schneien, schneit, geschneit ; snow ; > ;
donnern, donnert, gedonnert ; thunder ; > ;
stürmen, stürmt, gestürmt ; storm ; > ;
"""

_INFINITIVAL = """
versuchen ; try ; person > ;
beginnen, beginnt, begonnen ; begin, began, beginning ; person > ;
vergessen, vergisst, vergessen ; forget, forgot, forgetting ; person > ; done
beschließen, beschließt, beschlossen ; decide ; person > ; done
"""

ACTIONS: tuple[Verb, ...] = tuple(
    parse_verb(line) for table in (_INTRANSITIVE, _TRANSITIVE, _INDIRECT) for line in table_rows(table)
)
CLAUSAL: tuple[Verb, ...] = tuple(parse_verb(line) for line in table_rows(_CLAUSAL))
WEATHER: tuple[Verb, ...] = tuple(parse_verb(line) for line in table_rows(_WEATHER))
INFINITIVAL: tuple[Verb, ...] = tuple(parse_verb(line) for line in table_rows(_INFINITIVAL))
BE: Verb = parse_verb("sein, ist, gewesen, sein ; be, was, being ; > ; stative")
