"""The things of the picture book: clothes, food, toys, vehicles, furniture, tools, plants, weather."""

from regard.data.picturebook.entries import Noun, lines, noun

_TABLES: dict[str, str] = {
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
    "told": """
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

THINGS: tuple[Noun, ...] = tuple(noun(line, tags) for tags, table in _TABLES.items() for line in lines(table))
