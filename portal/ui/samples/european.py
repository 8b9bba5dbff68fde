"""Sample pages in European languages: a receipt, an invoice, a letter and a form. All names in them are made up."""

from __future__ import annotations

from portal.ui.samples.paper import MARGIN_PX, Paper


def receipt(paper: Paper) -> None:
    """An English till receipt."""
    paper.line("CORNER HOUSE BAKERY", size=50, side="middle", is_bold=True)
    paper.lines(("14 Mill Lane, Ashford", "Tel 01632 960 142"), size=30, side="middle")
    paper.gap(20)
    paper.rule()
    for item in (
        ("2  Sourdough loaf", "7.80"),
        ("1  Almond croissant", "2.95"),
        ("3  Cinnamon roll", "8.25"),
        ("1  Flat white, large", "3.60"),
        ("1  Orange juice", "3.20"),
    ):
        paper.pair(*item, size=34)
    paper.gap(10)
    paper.rule()
    paper.pair("Subtotal", "25.80", size=34)
    paper.pair("VAT 5 %", "1.29", size=34)
    paper.pair("TOTAL EUR", "27.09", size=38, is_bold=True)
    paper.gap(10)
    paper.rule()
    foot = ("Paid by card  **** 4417", "Receipt 20391    12 March 2026  08:41", "Thank you and see you tomorrow!")
    paper.lines(foot, size=30, side="middle")


def invoice(paper: Paper) -> None:
    """A German invoice with positions and VAT."""
    paper.line("Schreinerei Löwenstein GmbH", size=40, is_bold=True)
    paper.line("Gärtnerstraße 8 · 79098 Freiburg · Telefon 0761 555 0142", size=22)
    paper.gap(40)
    paper.lines(("Frau", "Käthe Müller-Groß", "Schloßallee 21", "79104 Freiburg"))
    paper.gap(36)
    paper.pair("Rechnung Nr. 2026-0417", "Freiburg, 3. März 2026", size=32, is_bold=True)
    paper.gap(10)
    paper.line("Für die ausgeführten Arbeiten berechnen wir Ihnen:")
    paper.gap(10)
    paper.grid(
        (
            ("Leistung", "Menge", "Preis", "Betrag"),
            ("Küchentür, Eiche", "1", "640,00 €", "640,00 €"),
            ("Türgriff, Messing", "2", "38,50 €", "77,00 €"),
            ("Einbau vor Ort", "6 h", "58,00 €", "348,00 €"),
        ),
        (380, 110, 160, 170),
    )
    paper.pair("Zwischensumme", "1.065,00 €")
    paper.pair("Umsatzsteuer 19 %", "202,35 €")
    paper.pair("Gesamtbetrag", "1.267,35 €", size=34, is_bold=True)
    paper.gap(24)
    paper.lines(
        (
            "Zahlbar ohne Abzug bis zum 17. März 2026.",
            "IBAN DE02 1203 0000 0000 2020 51",
            "Vielen Dank für Ihren Auftrag!",
        )
    )


def letter(paper: Paper) -> None:
    """A French letter, full of accents."""
    paper.lines(("Librairie Écume & Châtaigne", "12, rue du Vieux-Marché", "35400 Saint-Malo"))
    paper.gap(20)
    paper.line("Saint-Malo, le 18 août 2026", side="right")
    paper.gap(40)
    paper.line("Objet : votre commande n° 5821", is_bold=True)
    paper.gap(24)
    paper.line("Chère Madame Lefèvre,")
    paper.gap(16)
    paper.lines(
        (
            "Nous avons bien reçu votre lettre du 12 août et nous vous",
            "remercions de votre fidélité. L'ouvrage que vous désirez,",
            "« Où naît la forêt », est épuisé chez l'éditeur depuis Noël.",
        )
    )
    paper.gap(16)
    paper.lines(
        (
            "Nous avons cependant trouvé un exemplaire d'occasion, en",
            "très bon état, au prix de 24,50 €. Il vous sera réservé",
            "jusqu'à la fin du mois. Préférez-vous venir le chercher,",
            "ou faut-il vous l'expédier à l'adresse ci-dessus ?",
        )
    )
    paper.gap(16)
    paper.lines(
        ("Dans l'attente de votre réponse, nous vous prions d'agréer,", "chère Madame, nos salutations distinguées.")
    )
    paper.gap(50)
    paper.lines(("Hélène Brûlé", "Gérante"), side="right")


def form(paper: Paper) -> None:
    """A Spanish registration form, filled in."""
    paper.line("Biblioteca Municipal de Peñalba", size=38, side="middle", is_bold=True)
    paper.line("Solicitud de carné de lector", size=32, side="middle")
    paper.gap(50)
    middle = 500
    for row in (
        (("Nombre", "Begoña"), ("Apellidos", "Ibáñez Muñoz")),
        (("Fecha de nacimiento", "24/09/1988"), ("Teléfono", "600 555 014")),
        (("Dirección", "Calle del Águila, 17"), ("Código postal", "09410")),
        (("Población", "Peñalba de Castro"), ("Profesión", "Diseñadora")),
    ):
        (first, second) = row
        paper.field(*first, right=middle - 20)
        paper.field(*second, left=middle + 20)
        paper.gap(130)
    paper.field("Correo electrónico", "begona@correo.example")
    paper.gap(150)
    paper.lines(
        (
            "¿Desea recibir avisos sobre nuevas adquisiciones? Sí",
            "He leído y acepto las normas de la biblioteca.",
        )
    )
    paper.gap(50)
    paper.line("Peñalba, 7 de octubre de 2026")
    paper.gap(70)
    paper.rule(right=MARGIN_PX + 360)
    paper.line("Firma del solicitante", size=22)
