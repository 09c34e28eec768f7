"""Lexicon of adjectives, each with the tags of the nouns it fits."""

from regard.data.picturebook.lexical_entries import Adjective, parse_adjective, table_rows

_TABLE = """
rot | red | clothes toy vehicle bloom fruit dish
blau | blue | clothes toy vehicle dish bloom
grün | green | clothes toy vehicle dish fruit
gelb | yellow | clothes toy vehicle bloom dish
schwarz | black | clothes animal cat dog vehicle
weiß | white | clothes farm pet dish bloom vehicle
braun | brown | clothes runner opened
grau | gray | clothes runner building vehicle
rosa | pink | clothes bloom
lila | purple | clothes bloom
bunt | colorful | clothes toy flyer
gestreift | striped | clothes cat
golden | golden | jewel
silbern | silver | jewel
hell | bright | room lit
dunkel | dark | room barrier
groß, größer | big, bigger | animal toy vehicle furniture portable tree place built
klein, kleiner | small, smaller | little baby animal toy vehicle furniture portable plant place built
alt, älter | old, older | -child -young person animal clothes vehicle furniture portable tree building
jung, jünger | young, younger | -parent -young person animal
neu | new | -nature clothes vehicle furniture portable toy building instrument
lang, länger | long, longer | length narrative
kurz, kürzer | short, shorter | length narrative
hoch, höher | high, higher | barrier
schön, schöner | beautiful, more beautiful | clothes jewel bloom outdoors building instrument
hässlich | ugly | clothes building
schwer, schwerer | heavy, heavier | heavy
leicht | light | heavy
teuer, teurer | expensive, more expensive | sold vehicle jewel instrument
billig, billiger | cheap, cheaper | sold
warm | warm | clothes drink
heiß | hot | cooked drink
kalt | cold | drink cooked
frisch | fresh | food drink
süß | sweet | fruit ripe baked
sauer | sour | fruit
reif | ripe | fruit ripe
lecker | delicious | food
schmutzig, schmutziger | dirty, dirtier | clothes vehicle dish opened room
sauber, sauberer | clean, cleaner | clothes vehicle dish room
nass | wet | clothes dog cat bedding
trocken | dry | clothes
kaputt | broken | vehicle toy instrument
leer | empty | vessel opened room
voll | full | vessel luggage
offen | open | opened
rund | round | vessel
weich, weicher | soft, softer | bedding paired
spitz | pointed | gear
schnell, schneller | fast, faster | vehicle runner
langsam, langsamer | slow, slower | vehicle crawler runner
freundlich, freundlicher | friendly, friendlier | person pet
müde | tired | person baby runner farm pet
glücklich, glücklicher | happy, happier | person baby
traurig, trauriger | sad, sadder | person
hungrig | hungry | person baby animal
durstig | thirsty | person runner
krank | sick | person baby pet farm
gesund | healthy | person baby pet farm
stark, stärker | strong, stronger | person mount stormy
mutig, mutiger | brave, braver | person
faul, fauler | lazy, lazier | person pet
fleißig | hardworking | person
neugierig | curious | person animal
wütend | angry | person
schüchtern, schüchterner | shy, shyer | person
klug, klüger | clever, cleverer | person pet
reich, reicher | rich, richer | -child person
arm, ärmer | poor, poorer | person
berühmt | famous | trade tale building
lustig, lustiger | funny, funnier | person narrative
nervös | nervous | person
stolz | proud | person
wild, wilder | wild, wilder | beast
gefährlich, gefährlicher | dangerous, more dangerous | beast
zahm | tame | pet
dick, dicker | fat, fatter | pet farm
hübsch, hübscher | pretty, prettier | clothes jewel bloom
spannend, spannender | exciting, more exciting | gripping narrative
langweilig, langweiliger | boring, more boring | gripping narrative
wertvoll, wertvoller | valuable, more valuable | jewel instrument
ruhig, ruhiger | quiet, quieter | outdoors room
modern | modern | building vehicle
"""

ADJECTIVES: tuple[Adjective, ...] = tuple(parse_adjective(line) for line in table_rows(_TABLE))
