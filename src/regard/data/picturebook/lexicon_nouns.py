"""Lexicon of nouns: people, animals, things and places.

A table row is read by `parse_noun`, or for places by `parse_place_noun`. The tags select the nouns that a verb
takes as subject or object, and the adjectives that fit.
"""

from regard.data.picturebook.lexical_entries import Noun, Place, parse_noun, parse_place_noun, table_rows

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

_THINGS: dict[str, str] = {
    "clothes worn hung sold": """
        der Hut, Hüte | hat | headwear
        das Hemd, Hemden | shirt | dressed
        das Kleid, Kleider | dress | dressed length
        der Rock, Röcke | skirt | dressed length
        der Mantel, Mäntel | coat | dressed length
        die Jacke, Jacken | jacket | dressed
        der Pullover, Pullover | sweater | dressed
        die Mütze, Mützen | cap | headwear
        der Schal, Schals | scarf, scarves | length
        der Gürtel, Gürtel | belt
        die Krawatte, Krawatten | tie | length
        die Schürze, Schürzen | apron
        der Strohhut, Strohhüte | straw hat | headwear
        der Regenmantel, Regenmäntel | raincoat | dressed
        die Lederjacke, Lederjacken | leather jacket | dressed
        der Badeanzug, Badeanzüge | swimsuit | dressed
        die Uniform, Uniformen | uniform | dressed
        der Helm, Helme | helmet | headwear
    """,
    "clothes paired sold": """
        der Handschuh, Handschuhe | glove
        der Schuh, Schuhe | shoe
        der Stiefel, Stiefel | boot
        die Socke, Socken | sock
        der Fußballschuh, Fußballschuhe | soccer shoe
    """,
    "worn jewel": """
        die Krone, Kronen | crown
        der Ring, Ringe | ring
        die Halskette, Halsketten | necklace
    """,
    "food sold": """
        der Apfel, Äpfel | apple | fruit feed
        die Birne, Birnen | pear | fruit
        die Banane, Bananen | banana | ripe
        die Orange, Orangen | orange | fruit
        die Kirsche, Kirschen | cherry | fruit
        die Erdbeere, Erdbeeren | strawberry | fruit
        die Zitrone, Zitronen | lemon | ripe
        die Tomate, Tomaten | tomato, tomatoes | fruit
        die Kartoffel, Kartoffeln | potato, potatoes | crop
        die Karotte, Karotten | carrot | feed crop
        die Gurke, Gurken | cucumber
        der Kuchen, Kuchen | cake | baked
        der Keks, Kekse | cookie | baked
        das Ei, Eier | egg
        das Würstchen, Würstchen | sausage
        die Pizza, Pizzas | pizza | baked
        der Pfannkuchen, Pfannkuchen | pancake
        die Schokoladentorte, Schokoladentorten | chocolate cake | baked
        das Butterbrot, Butterbrote | sandwich, sandwiches
    """,
    "food sold bulk": """
        das Brot, - | bread | baked
        der Käse, - | cheese
        die Suppe, - | soup | cooked
        der Reis, - | rice | cooked
        die Schokolade, - | chocolate
        das Eis, - | ice cream
        der Honig, - | honey
        die Marmelade, - | jam | cooked
        das Fleisch, - | meat | prey
        der Salat, - | salad
    """,
    "feed bulk": """
        das Gras, - | grass
        das Heu, - | hay
    """,
    "drink bulk sold": """
        die Milch, - | milk
        das Wasser, - | water | plain
        der Saft, - | juice
        der Tee, - | tea
        der Kaffee, - | coffee
        die Limonade, - | lemonade
        der Orangensaft, - | orange juice
        der Apfelsaft, - | apple juice
    """,
    "text portable": """
        das Buch, Bücher | book | sold gripping
        die Zeitung, Zeitungen | newspaper | sold
        der Brief, Briefe | letter | written
        die Postkarte, Postkarten | postcard | written sold
        die Zeitschrift, Zeitschriften | magazine | sold gripping
        das Bilderbuch, Bilderbücher | picture book | sold gripping
    """,
    "narrative": """
        das Gedicht, Gedichte | poem | written
        das Märchen, Märchen | fairy tale
        die Geschichte, Geschichten | story | written
    """,
    "instrument": """
        das Klavier, Klaviere | piano
        die Geige, Geigen | violin
        die Gitarre, Gitarren | guitar
        die Flöte, Flöten | flute
        die Trompete, Trompeten | trumpet
    """,
    "toy portable sold": """
        der Ball, Bälle | ball | thrown
        die Puppe, Puppen | doll
        der Teddybär*, Teddybären | teddy bear
        der Drachen, Drachen | kite
        der Kreisel, Kreisel | spinning top
        das Schaukelpferd, Schaukelpferde | rocking horse
        der Luftballon, Luftballons | balloon
        der Roboter, Roboter | robot
        das Springseil, Springseile | jump rope
        der Schlitten, Schlitten | sled
        die Spielzeugeisenbahn, Spielzeugeisenbahnen | toy train
    """,
    "vehicle": """
        das Auto, Autos | car | road
        der Bus, Busse | bus | road public
        der Lastwagen, Lastwagen | truck | road
        das Fahrrad, Fahrräder | bicycle | cycle
        das Motorrad, Motorräder | motorcycle | cycle
        der Zug, Züge | train | public
        das Schiff, Schiffe | ship | boat
        das Boot, Boote | boat | boat
        das Segelboot, Segelboote | sailboat | boat
        das Flugzeug, Flugzeuge | airplane | plane
        der Hubschrauber, Hubschrauber | helicopter | plane
        der Traktor, Traktoren | tractor | road
        das Feuerwehrauto, Feuerwehrautos | fire truck | road
        der Krankenwagen, Krankenwagen | ambulance | road
        das Taxi, Taxis | taxi | road public
        die Straßenbahn, Straßenbahnen | streetcar | public
        der Polizeiwagen, Polizeiwagen | police car | road
        der Rennwagen, Rennwagen | race car | road
    """,
    "furniture": """
        der Tisch, Tische | table | seat
        der Stuhl, Stühle | chair | seat
        das Bett, Betten | bed | seat
        das Sofa, Sofas | sofa | seat
        der Schrank, Schränke | cupboard | opened
        das Regal, Regale | shelf, shelves | board
        der Teppich, Teppiche | carpet | floor
        die Bank, Bänke | bench | seat
        die Tür, Türen | door | opened fixed
        das Fenster, Fenster | window | opened fixed
    """,
    "tool portable": """
        die Lampe, Lampen | lamp | sold upright
        die Uhr, Uhren | clock | sold
        der Spiegel, Spiegel | mirror | sold
        die Kiste, Kisten | box | luggage opened upright heavy
        der Korb, Körbe | basket | luggage upright vessel
        der Koffer, Koffer | suitcase | luggage opened heavy upright
        die Tasche, Taschen | bag | luggage opened heavy sold
        der Eimer, Eimer | bucket | upright vessel
        die Flasche, Flaschen | bottle | opened upright dish vessel broken
        die Tasse, Tassen | cup | upright dish vessel broken
        der Teller, Teller | plate | dish broken
        die Schüssel, Schüsseln | bowl | upright dish vessel broken
        der Topf, Töpfe | pot | upright dish vessel
        der Löffel, Löffel | spoon | flat dish
        die Gabel, Gabeln | fork | flat dish
        das Messer, Messer | knife, knives | flat dish
        der Hammer, Hämmer | hammer | flat gear
        die Säge, Sägen | saw | flat gear
        die Schaufel, Schaufeln | shovel | gear
        der Besen, Besen | broom | gear
        die Leiter, Leitern | ladder | gear heavy
        der Schlüssel, Schlüssel | key | flat
        der Regenschirm, Regenschirme | umbrella | sold
        der Bleistift, Bleistifte | pencil | flat
        der Pinsel, Pinsel | paintbrush, paintbrushes | flat
        die Kamera, Kameras | camera | sold
        das Bild, Bilder | picture | drawn
        das Geschenk, Geschenke | present | wrapped
        die Kerze, Kerzen | candle | lit sold
        die Laterne, Laternen | lantern | lit
        die Decke, Decken | blanket | bedding flat
        das Kissen, Kissen | pillow | bedding flat
        das Handtuch, Handtücher | towel | bedding flat
        die Fahne, Fahnen | flag
        der Rucksack, Rucksäcke | backpack | luggage opened heavy sold
        die Schatzkiste, Schatzkisten | treasure chest | luggage opened heavy
        der Stein, Steine | stone | thrown heavy nature
        die Muschel, Muscheln | shell | flat nature
    """,
    "plant": """
        die Blume, Blumen | flower | bloom
        die Rose, Rosen | rose | bloom
        die Tulpe, Tulpen | tulip | bloom
        die Sonnenblume, Sonnenblumen | sunflower | bloom
        der Baum, Bäume | tree | tree
        der Apfelbaum, Apfelbäume | apple tree | tree
        der Busch, Büsche | bush | tree
    """,
    "structure": """
        der Zaun, Zäune | fence | barrier
        die Mauer, Mauern | wall | barrier
        das Zelt, Zelte | tent | built
        der Schneemann, Schneemänner | snowman, snowmen | built
        die Sandburg, Sandburgen | sandcastle | built
        das Vogelhaus, Vogelhäuser | birdhouse | built
    """,
    "weather bulk": """
        der Regen, - | rain
        der Schnee, - | snow
        der Sturm, Stürme | storm | stormy
        der Wind, - | wind | stormy
        der Nebel, - | fog
        die Hitze, - | heat
        die Kälte, - | cold
    """,
    "body": """
        der Fuß, Füße | foot, feet | washable
        der Zahn, Zähne | tooth, teeth | brushable
        die Hand, Hände | hand | washable
        das Haar, Haare | hair, hair | combable
        das Gesicht, Gesichter | face | washable
    """,
}

_PLACES: dict[str, str] = {
    "place outdoors": """
        der Garten, Gärten | garden | in in | in into
        der Park, Parks | park | in in | in into
        der Wald, Wälder | forest | in in | in into
        das Dorf, Dörfer | village | in in | in into
        die Stadt, Städte | city | in in | in into
        der Zoo, Zoos | zoo | in at | in into
        der Strand, Strände | beach | an on | an to
        der See, Seen | lake | an by | an to
        der Fluss, Flüsse | river | an by | an to
        das Ufer, Ufer | shore | an on | an to
        der Hügel, Hügel | hill | auf on | auf onto
        die Wiese, Wiesen | meadow | auf in | auf into
        das Feld, Felder | field | auf in | auf into
        die Straße, Straßen | street | auf on | auf onto
        die Brücke, Brücken | bridge | auf on | auf onto
        der Marktplatz, Marktplätze | market square | auf in | auf into
        der Spielplatz, Spielplätze | playground | auf on | auf onto
        der Bauernhof, Bauernhöfe | farm | auf on | auf to
        der Hof, Höfe | yard | in in | in into
        die Insel, Inseln | island | auf on | auf to
    """,
    "place building": """
        das Haus, Häuser | house | in in | in into
        die Schule, Schulen | school | in in | in into
        die Bibliothek, Bibliotheken | library | in in | in into
        der Laden, Läden | shop | in in | in into
        das Café, Cafés | café | in in | in into
        das Museum, Museen | museum | in in | in into
        das Theater, Theater | theater | in in | in into
        das Krankenhaus, Krankenhäuser | hospital | in in | zu to
        die Kirche, Kirchen | church | in in | in into
        der Bahnhof, Bahnhöfe | train station | an at | zu to
        der Flughafen, Flughäfen | airport | an at | zu to
        der Stall, Ställe | barn | in in | in into
        das Schloss, Schlösser | castle | in in | in into
        der Turm, Türme | tower | in in | in into
        die Bäckerei, Bäckereien | bakery | in in | in into
        die Werkstatt, Werkstätten | workshop | in in | in into
        das Schwimmbad, Schwimmbäder | swimming pool | in at | in to
    """,
    "place room": """
        die Küche, Küchen | kitchen | in in | in into
        das Zimmer, Zimmer | room | in in | in into
        das Wohnzimmer, Wohnzimmer | living room | in in | in into
        das Schlafzimmer, Schlafzimmer | bedroom | in in | in into
        das Klassenzimmer, Klassenzimmer | classroom | in in | in into
        der Keller, Keller | cellar | in in | in into
        das Büro, Büros | office | in in | in into
    """,
}

CREATURES: tuple[Noun, ...] = (
    *(parse_noun(row, "person") for row in table_rows(_PEOPLE)),
    parse_noun("das Baby, Babys | baby", "baby"),
    *(parse_noun(row, "animal") for row in table_rows(_ANIMALS)),
)
THINGS: tuple[Noun, ...] = tuple(
    parse_noun(row, tags) for tags, table in _THINGS.items() for row in table_rows(table)
)
PLACES: tuple[Place, ...] = tuple(
    parse_place_noun(row, tags) for tags, table in _PLACES.items() for row in table_rows(table)
)
