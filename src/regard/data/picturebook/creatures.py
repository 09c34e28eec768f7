"""The people and animals of the picture book."""

from regard.data.picturebook.entries import Noun, lines, noun

_PEOPLE = """
der Mann, Männer | man, men | beard
die Frau, Frauen | woman, women
das Kind, Kinder | child, children | child little
der Junge*, Jungen | boy | child little
das Mädchen, Mädchen | girl | she child little
der Lehrer, Lehrer | teacher | trade
die Ärztin, Ärztinnen | doctor | trade
die Krankenschwester, Krankenschwestern | nurse | trade
der Koch, Köche | cook | trade
der Bäcker, Bäcker | baker | trade
der Bauer*, Bauern | farmer | trade
der Fischer, Fischer | fisherman, fishermen | trade
der Polizist*, Polizisten | policeman, policemen | trade
der Feuerwehrmann, Feuerwehrmänner | fireman, firemen | trade
die Verkäuferin, Verkäuferinnen | saleswoman, saleswomen | trade
der Gärtner, Gärtner | gardener | trade
der Maler, Maler | painter | trade
die Sängerin, Sängerinnen | singer | trade
die Tänzerin, Tänzerinnen | dancer | trade
der Fußballspieler, Fußballspieler | soccer player | trade
der Nachbar*, Nachbarn | neighbor | kin
der Freund, Freunde | friend | kin
die Mutter, Mütter | mother | kin parent
der Vater, Väter | father | kin parent beard
der Bruder, Brüder | brother | kin little
die Schwester, Schwestern | sister | kin little
die Großmutter, Großmütter | grandmother | kin parent
der Großvater, Großväter | grandfather | kin parent beard
die Tante, Tanten | aunt | kin
der Onkel, Onkel | uncle | kin
der König, Könige | king | tale beard
die Königin, Königinnen | queen | tale
der Prinz*, Prinzen | prince | tale
die Prinzessin, Prinzessinnen | princess | tale
der Clown, Clowns | clown | trade
der Zauberer, Zauberer | magician | trade
die Hexe, Hexen | witch | tale
der Pirat*, Piraten | pirate | tale beard
der Ritter, Ritter | knight | tale
der Matrose*, Matrosen | sailor | trade
der Student*, Studenten | student
der Schüler, Schüler | pupil | child
der Tourist*, Touristen | tourist
der Busfahrer, Busfahrer | bus driver | trade
der Briefträger, Briefträger | mailman, mailmen | trade
der Zahnarzt, Zahnärzte | dentist | trade
die Fotografin, Fotografinnen | photographer | trade
der Schneider, Schneider | tailor | trade
der Jäger, Jäger | hunter | trade
der Wanderer, Wanderer | hiker
der Cowboy, Cowboys | cowboy
der Riese*, Riesen | giant | tale
der Zwerg, Zwerge | dwarf, dwarfs | tale little
"""

# runner, flyer, swimmer, crawler: how it moves; grazer, predator: what it eats; pet, farm, wild: its home
_ANIMALS = """
der Hund, Hunde | dog | runner predator pet dog
die Katze, Katzen | cat | runner predator pet cat
das Pferd, Pferde | horse | runner grazer farm mount
die Kuh, Kühe | cow | runner grazer farm cow
das Schwein, Schweine | pig | runner farm
das Schaf, Schafe | sheep, sheep | runner grazer farm
die Ziege, Ziegen | goat | runner grazer farm cow
der Esel, Esel | donkey | runner grazer farm mount
der Hase*, Hasen | hare | runner grazer wild
das Kaninchen, Kaninchen | rabbit | runner grazer pet
die Maus, Mäuse | mouse, mice | runner small caught
der Hamster, Hamster | hamster | runner pet small
der Löwe*, Löwen | lion | runner predator wild beast
der Tiger, Tiger | tiger | runner predator wild beast
der Elefant*, Elefanten | elephant | runner grazer wild
der Affe*, Affen | monkey | runner wild
der Bär*, Bären | bear | runner predator wild beast
der Wolf, Wölfe | wolf, wolves | runner predator wild beast
der Fuchs, Füchse | fox | runner predator wild
das Reh, Rehe | deer, deer | runner grazer wild
das Kamel, Kamele | camel | runner grazer mount
die Giraffe, Giraffen | giraffe | runner grazer wild
das Zebra, Zebras | zebra | runner grazer wild
das Krokodil, Krokodile | crocodile | predator wild crawler beast
die Schildkröte, Schildkröten | turtle | crawler pet
der Igel, Igel | hedgehog | runner wild small
das Eichhörnchen, Eichhörnchen | squirrel | runner wild small
der Frosch, Frösche | frog | hopper small caught
die Schlange, Schlangen | snake | crawler wild beast
der Vogel, Vögel | bird | flyer wild songbird
die Ente, Enten | duck | flyer farm
die Gans, Gänse | goose, geese | flyer farm
das Huhn, Hühner | chicken | farm
der Hahn, Hähne | rooster | farm
der Schwan, Schwäne | swan | flyer
die Eule, Eulen | owl | flyer wild
der Adler, Adler | eagle | flyer wild
der Papagei, Papageien | parrot | flyer pet
der Rabe*, Raben | raven | flyer
die Taube, Tauben | pigeon | flyer
der Storch, Störche | stork | flyer
der Pinguin, Pinguine | penguin | swimmer
der Fisch, Fische | fish, fish | swimmer caught
der Delfin, Delfine | dolphin | swimmer
der Hai, Haie | shark | swimmer beast
der Schmetterling, Schmetterlinge | butterfly | flyer small caught
die Biene, Bienen | bee | flyer small
die Schnecke, Schnecken | snail | crawler small
der Welpe*, Welpen | puppy | young runner pet predator dog
das Kätzchen, Kätzchen | kitten | young runner pet predator cat
das Lamm, Lämmer | lamb | young runner farm grazer
das Kalb, Kälber | calf, calves | young runner farm grazer
das Küken, Küken | chick | young farm small
das Fohlen, Fohlen | foal | young runner farm grazer
"""

CREATURES: tuple[Noun, ...] = (
    *(noun(line, "person") for line in lines(_PEOPLE)),
    noun("das Baby, Babys | baby", "baby"),
    *(noun(line, "animal") for line in lines(_ANIMALS)),
)
