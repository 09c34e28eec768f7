"""The places of the picture book, each with the prepositions for being there and for going there."""

from regard.data.picturebook.entries import Place, lines, place

_TABLES: dict[str, str] = {
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

PLACES: tuple[Place, ...] = tuple(place(line, tags) for tags, table in _TABLES.items() for line in lines(table))
