package trace

// vocabulary is the words that texts consist of, one for each value of a byte. All are
// different: a text can be read back.
var vocabulary = [256]string{
	"answer", "acid", "aged", "also", "area", "army", "away", "baby", "back", "ball", "band", "bank",
	"base", "bath", "bear", "beat", "been", "beer", "journey", "belt", "best", "yellow", "blow", "blue",
	"island", "body", "march", "bond", "bone", "library", "boom", "born", "boss", "both", "bowl", "bulk",
	"burn", "bush", "busy", "cake", "call", "calm", "came", "camp", "bridge", "care", "case", "cash",
	"cast", "cell", "chat", "chip", "capital", "club", "coal", "coat", "program", "cold", "come", "cook",
	"winter", "cope", "picture", "core", "cost", "crew", "crop", "dark", "evidence", "date", "dawn", "days",
	"maybe", "deal", "dean", "dear", "debt", "deep", "deny", "desk", "dial", "diet", "dirt", "disc",
	"dish", "dock", "does", "candle", "dose", "down", "draw", "drew", "drop", "meal", "dual", "duke",
	"dust", "duty", "each", "earn", "ease", "east", "easy", "edge", "else", "even", "ever", "mean",
	"exit", "face", "fact", "fail", "fair", "fall", "farm", "fast", "fate", "fear", "feed", "feel",
	"feet", "fell", "felt", "file", "fill", "film", "find", "fine", "distance", "firm", "mountain", "five",
	"flat", "flow", "village", "foot", "meat", "form", "fort", "four", "free", "from", "fuel", "full",
	"fund", "gain", "station", "gate", "gave", "gear", "gene", "gift", "girl", "give", "glad", "goal",
	"goes", "evening", "golf", "gone", "good", "gray", "grew", "grey", "grow", "gulf", "hair", "half",
	"hall", "finger", "hang", "hard", "harm", "meet", "have", "head", "hear", "summer", "held", "menu",
	"help", "here", "hero", "high", "forest", "hire", "hold", "hole", "holy", "window", "hope", "host",
	"minute", "huge", "mild", "hunt", "hurt", "thought", "inch", "into", "iron", "item", "mile", "milk",
	"mill", "mind", "join", "jump", "jury", "just", "keen", "keep", "harbour", "kept", "kick", "kind",
	"teacher", "knee", "knew", "know", "lack", "lady", "laid", "garden", "country", "lane", "last", "late",
	"lead", "left", "less", "history", "lift", "like", "question", "link", "catalogue", "live", "load", "loan",
	"lock", "logo", "long", "look", "more", "lose", "loss", "lost", "friend", "luck", "made", "mail",
	"main", "make", "male", "many",
}
