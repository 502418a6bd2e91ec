"""The blocks of Unicode 18, by the names that XSD gives them: without white space.

>>> BLOCKS["BasicLatin"], BLOCKS["Greek"] == BLOCKS["GreekandCoptic"]
(((0, 127),), True)
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

_LAST = 0x10FFFF
#: The start of each block; ``-`` is a gap between blocks.
_STARTS = """
    0:BasicLatin 80:Latin-1Supplement 100:LatinExtended-A 180:LatinExtended-B 250:IPAExtensions
    2B0:SpacingModifierLetters 300:CombiningDiacriticalMarks 370:GreekandCoptic 400:Cyrillic
    500:CyrillicSupplement 530:Armenian 590:Hebrew 600:Arabic 700:Syriac 750:ArabicSupplement
    780:Thaana 7C0:NKo 800:Samaritan 840:Mandaic 860:SyriacSupplement 870:ArabicExtended-B
    8A0:ArabicExtended-A 900:Devanagari 980:Bengali A00:Gurmukhi A80:Gujarati B00:Oriya B80:Tamil
    C00:Telugu C80:Kannada D00:Malayalam D80:Sinhala E00:Thai E80:Lao F00:Tibetan 1000:Myanmar
    10A0:Georgian 1100:HangulJamo 1200:Ethiopic 1380:EthiopicSupplement 13A0:Cherokee
    1400:UnifiedCanadianAboriginalSyllabics 1680:Ogham 16A0:Runic 1700:Tagalog 1720:Hanunoo
    1740:Buhid 1760:Tagbanwa 1780:Khmer 1800:Mongolian
    18B0:UnifiedCanadianAboriginalSyllabicsExtended 1900:Limbu 1950:TaiLe 1980:NewTaiLue
    19E0:KhmerSymbols 1A00:Buginese 1A20:TaiTham 1AB0:CombiningDiacriticalMarksExtended
    1B00:Balinese 1B80:Sundanese 1BC0:Batak 1C00:Lepcha 1C50:OlChiki 1C80:CyrillicExtended-C
    1C90:GeorgianExtended 1CC0:SundaneseSupplement 1CD0:VedicExtensions 1D00:PhoneticExtensions
    1D80:PhoneticExtensionsSupplement 1DC0:CombiningDiacriticalMarksSupplement
    1E00:LatinExtendedAdditional 1F00:GreekExtended 2000:GeneralPunctuation
    2070:SuperscriptsandSubscripts 20A0:CurrencySymbols 20D0:CombiningDiacriticalMarksforSymbols
    2100:LetterlikeSymbols 2150:NumberForms 2190:Arrows 2200:MathematicalOperators
    2300:MiscellaneousTechnical 2400:ControlPictures 2440:OpticalCharacterRecognition
    2460:EnclosedAlphanumerics 2500:BoxDrawing 2580:BlockElements 25A0:GeometricShapes
    2600:MiscellaneousSymbols 2700:Dingbats 27C0:MiscellaneousMathematicalSymbols-A
    27F0:SupplementalArrows-A 2800:BraillePatterns 2900:SupplementalArrows-B
    2980:MiscellaneousMathematicalSymbols-B 2A00:SupplementalMathematicalOperators
    2B00:MiscellaneousSymbolsandArrows 2C00:Glagolitic 2C60:LatinExtended-C 2C80:Coptic
    2D00:GeorgianSupplement 2D30:Tifinagh 2D80:EthiopicExtended 2DE0:CyrillicExtended-A
    2E00:SupplementalPunctuation 2E80:CJKRadicalsSupplement 2F00:KangxiRadicals 2FE0:-
    2FF0:IdeographicDescriptionCharacters 3000:CJKSymbolsandPunctuation 3040:Hiragana
    30A0:Katakana 3100:Bopomofo 3130:HangulCompatibilityJamo 3190:Kanbun 31A0:BopomofoExtended
    31C0:CJKStrokes 31F0:KatakanaPhoneticExtensions 3200:EnclosedCJKLettersandMonths
    3300:CJKCompatibility 3400:CJKUnifiedIdeographsExtensionA 4DC0:YijingHexagramSymbols
    4E00:CJKUnifiedIdeographs A000:YiSyllables A490:YiRadicals A4D0:Lisu A500:Vai
    A640:CyrillicExtended-B A6A0:Bamum A700:ModifierToneLetters A720:LatinExtended-D
    A800:SylotiNagri A830:CommonIndicNumberForms A840:Phags-pa A880:Saurashtra
    A8E0:DevanagariExtended A900:KayahLi A930:Rejang A960:HangulJamoExtended-A A980:Javanese
    A9E0:MyanmarExtended-B AA00:Cham AA60:MyanmarExtended-A AA80:TaiViet
    AAE0:MeeteiMayekExtensions AB00:EthiopicExtended-A AB30:LatinExtended-E
    AB70:CherokeeSupplement ABC0:MeeteiMayek AC00:HangulSyllables D7B0:HangulJamoExtended-B
    D800:HighSurrogates DB80:HighPrivateUseSurrogates DC00:LowSurrogates E000:PrivateUseArea
    F900:CJKCompatibilityIdeographs FB00:AlphabeticPresentationForms
    FB50:ArabicPresentationForms-A FE00:VariationSelectors FE10:VerticalForms
    FE20:CombiningHalfMarks FE30:CJKCompatibilityForms FE50:SmallFormVariants
    FE70:ArabicPresentationForms-B FF00:HalfwidthandFullwidthForms FFF0:Specials
    10000:LinearBSyllabary 10080:LinearBIdeograms 10100:AegeanNumbers 10140:AncientGreekNumbers
    10190:AncientSymbols 101D0:PhaistosDisc 10200:- 10280:Lycian 102A0:Carian
    102E0:CopticEpactNumbers 10300:OldItalic 10330:Gothic 10350:OldPermic 10380:Ugaritic
    103A0:OldPersian 103E0:- 10400:Deseret 10450:Shavian 10480:Osmanya 104B0:Osage 10500:Elbasan
    10530:CaucasianAlbanian 10570:Vithkuqi 105C0:Todhri 10600:LinearA 10780:LatinExtended-F
    107C0:- 10800:CypriotSyllabary 10840:ImperialAramaic 10860:Palmyrene 10880:Nabataean 108B0:-
    108E0:Hatran 10900:Phoenician 10920:Lydian 10940:Sidetic 10960:- 10980:MeroiticHieroglyphs
    109A0:MeroiticCursive 10A00:Kharoshthi 10A60:OldSouthArabian 10A80:OldNorthArabian 10AA0:-
    10AC0:Manichaean 10B00:Avestan 10B40:InscriptionalParthian 10B60:InscriptionalPahlavi
    10B80:PsalterPahlavi 10BB0:- 10C00:OldTurkic 10C50:- 10C80:OldHungarian 10D00:HanifiRohingya
    10D40:Garay 10D90:- 10E60:RumiNumeralSymbols 10E80:Yezidi 10EC0:ArabicExtended-C
    10F00:OldSogdian 10F30:Sogdian 10F70:OldUyghur 10FB0:Chorasmian 10FE0:Elymaic 11000:Brahmi
    11080:Kaithi 110D0:SoraSompeng 11100:Chakma 11150:Mahajani 11180:Sharada
    111E0:SinhalaArchaicNumbers 11200:Khojki 11250:- 11280:Multani 112B0:Khudawadi 11300:Grantha
    11380:Tulu-Tigalari 11400:Newa 11480:Tirhuta 114E0:- 11580:Siddham 11600:Modi
    11660:MongolianSupplement 11680:Takri 116D0:MyanmarExtended-C 11700:Ahom 11750:- 11800:Dogra
    11850:- 118A0:WarangCiti 11900:DivesAkuru 11960:- 119A0:Nandinagari 11A00:ZanabazarSquare
    11A50:Soyombo 11AB0:UnifiedCanadianAboriginalSyllabicsExtended-A 11AC0:PauCinHau
    11B00:DevanagariExtended-A 11B60:SharadaSupplement 11B80:- 11BC0:Sunuwar 11C00:Bhaiksuki
    11C70:Marchen 11CC0:- 11D00:MasaramGondi 11D60:GunjalaGondi 11DB0:TolongSiki
    11DF0:BengaliSupplement 11E00:- 11EE0:Makasar 11F00:Kawi 11F60:- 11FB0:LisuSupplement
    11FC0:TamilSupplement 12000:Cuneiform 12400:CuneiformNumbersandPunctuation
    12480:EarlyDynasticCuneiform 12550:ArchaicCuneiformNumerals 12690:- 12F90:Cypro-Minoan
    13000:EgyptianHieroglyphs 13430:EgyptianHieroglyphFormatControls
    13460:EgyptianHieroglyphsExtended-A 14400:AnatolianHieroglyphs 14680:- 16100:GurungKhema
    16140:- 16800:BamumSupplement 16A40:Mro 16A70:Tangsa 16AD0:BassaVah 16B00:PahawhHmong 16B90:-
    16D40:KiratRai 16D80:- 16E40:Medefaidrin 16EA0:BeriaErfe 16EE0:- 16F00:Miao 16FA0:-
    16FE0:IdeographicSymbolsandPunctuation 17000:Tangut 18800:TangutComponents
    18B00:KhitanSmallScript 18D00:TangutSupplement 18D80:TangutComponentsSupplement 18E00:Jurchen
    191A0:JurchenRadicals 191E0:- 1AFF0:KanaExtended-B 1B000:KanaSupplement 1B100:KanaExtended-A
    1B130:SmallKanaExtension 1B170:Nushu 1B300:- 1BC00:Duployan 1BCA0:ShorthandFormatControls
    1BCB0:- 1CC00:SymbolsforLegacyComputingSupplement 1CEC0:MiscellaneousSymbolsSupplement
    1CF00:ZnamennyMusicalNotation 1CFD0:- 1D000:ByzantineMusicalSymbols 1D100:MusicalSymbols
    1D200:AncientGreekMusicalNotation 1D250:MusicalSymbolsSupplement 1D290:-
    1D2C0:KaktovikNumerals 1D2E0:MayanNumerals 1D300:TaiXuanJingSymbols 1D360:CountingRodNumerals
    1D380:- 1D400:MathematicalAlphanumericSymbols 1D800:SuttonSignWriting 1DAB0:-
    1DB00:MiscellaneousSymbolsandArrowsExtended 1DC00:- 1DF00:LatinExtended-G
    1E000:GlagoliticSupplement 1E030:CyrillicExtended-D 1E090:- 1E100:NyiakengPuachueHmong 1E150:-
    1E290:Toto 1E2C0:Wancho 1E300:- 1E4D0:NagMundari 1E500:- 1E5D0:OlOnal 1E600:- 1E6C0:TaiYo
    1E700:- 1E7E0:EthiopicExtended-B 1E800:MendeKikakui 1E8E0:- 1E900:Adlam 1E960:-
    1EC70:IndicSiyaqNumbers 1ECC0:- 1ED00:OttomanSiyaqNumbers 1ED50:-
    1EE00:ArabicMathematicalAlphabeticSymbols 1EF00:- 1F000:MahjongTiles 1F030:DominoTiles
    1F0A0:PlayingCards 1F100:EnclosedAlphanumericSupplement 1F200:EnclosedIdeographicSupplement
    1F300:MiscellaneousSymbolsandPictographs 1F600:Emoticons 1F650:OrnamentalDingbats
    1F680:TransportandMapSymbols 1F700:AlchemicalSymbols 1F780:GeometricShapesExtended
    1F800:SupplementalArrows-C 1F900:SupplementalSymbolsandPictographs 1FA00:ChessSymbols
    1FA70:SymbolsandPictographsExtended-A 1FB00:SymbolsforLegacyComputing 1FC00:-
    20000:CJKUnifiedIdeographsExtensionB 2A6E0:- 2A700:CJKUnifiedIdeographsExtensionC
    2B740:CJKUnifiedIdeographsExtensionD 2B820:CJKUnifiedIdeographsExtensionE
    2CEB0:CJKUnifiedIdeographsExtensionF 2EBF0:CJKUnifiedIdeographsExtensionI 2EE60:-
    2F800:CJKCompatibilityIdeographsSupplement 2FA20:- 30000:CJKUnifiedIdeographsExtensionG
    31350:CJKUnifiedIdeographsExtensionH 323B0:CJKUnifiedIdeographsExtensionJ 33480:- 3D000:Seal
    3FC40:- E0000:Tags E0080:- E0100:VariationSelectorsSupplement E01F0:-
    F0000:SupplementaryPrivateUseArea-A 100000:SupplementaryPrivateUseArea-B
"""

Ranges = tuple[tuple[int, int], ...]


def _read() -> dict[str, Ranges]:
    parts = [part.split(":") for part in _STARTS.split()]
    starts = [(int(start, 16), name) for start, name in parts]
    found: dict[str, Ranges] = {
        name: ((start, following - 1),)
        for (start, name), (following, _) in pairwise([*starts, (_LAST + 1, "")])
        if name != "-"
    }
    # Names of XSD 1.0 that later versions of Unicode have changed.
    found["Greek"] = found["GreekandCoptic"]
    found["CombiningMarksforSymbols"] = found["CombiningDiacriticalMarksforSymbols"]
    planes = ("SupplementaryPrivateUseArea-A", "SupplementaryPrivateUseArea-B")
    found["PrivateUse"] = (*found["PrivateUseArea"], *(found[name][0] for name in planes))
    return found


BLOCKS: Final = _read()
