package server

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/tierd/tierd/tiering"
)

func memoryTypes() *huma.Schema {
	return enum(string(tiering.MemoryFact), string(tiering.MemoryKnowledge), string(tiering.MemoryEvent), string(tiering.MemoryExperience))
}

func share() *huma.Schema {
	s := number()
	least, most := 0.0, 1.0
	s.Minimum, s.Maximum = &least, &most
	return s
}

func vectorSchema() *huma.Schema {
	s := list(number())
	least, most := 1, tiering.MaxDimensions
	s.MinItems, s.MaxItems = &least, &most
	return s
}

func linkProperties() []property {
	return []property{
		must("relation", "What the link says, such as caused or part_of.", text(256)),
		must("to", "The id of a memory of the same namespace.", str()),
	}
}

func memoryTextSchema() *huma.Schema {
	s := text(tiering.MaxMemoryText)
	least := 1
	s.MinLength = &least
	return s
}

func memoryBodyProperties() []property {
	return []property{
		must("text", "What is remembered.", memoryTextSchema()),
		may("type", "fact, the default, does not age; knowledge; event has a time range; experience has links.", memoryTypes()),
		may("metadata", "Any object. speaker, a text, is who said it.", raw()),
		may("agent", "Whose memory it is, among agents.", text(256)),
		may("app", "The application.", text(256)),
		may("session", "The conversation: memories of one say something of their neighbours.", text(256)),
		may("importance", "0 to 1.", share()),
		may("occurred_at", "When it happened, or began; absent: when it was stored.", instant()),
		may("ended_at", "When it ended.", instant()),
		may("valid_to", "From when it holds no more: recall leaves it out then.", instant()),
		may("superseded_by", "The id of the memory that took its place.", str()),
		may("uses", "Confirmed uses.", integer(0)),
		may("used_at", "The last of them.", instant()),
		may("links", "Links to other memories.", list(ref("Link"))),
		may("embedding_model", "Names the space of embedding.", text(256)),
	}
}

// memorySchemas are what calls on memories take and answer.
func memorySchemas(c map[string]*huma.Schema) {
	status := enum(string(tiering.IndexPending), string(tiering.IndexIndexed), string(tiering.IndexFailed))
	c["Link"] = object("One relation from the memory that holds it.", linkProperties()...)
	c["NewMemory"] = object("A memory to store.", join([]property{
		may("id", "Its id; absent: made.", str()),
		may("user", "Its owner, fixed when it is created.", str()),
		may("ttl", "A life from now, or none.", ttlSchema()),
		may("embedding", "Your own vector.", vectorSchema()),
	}, memoryBodyProperties())...)
	c["MemoryPatch"] = object("A merge patch of a memory: null takes a field away.", nullable(join(
		[]property{may("embedding", "Your own vector.", vectorSchema())}, memoryBodyProperties()))...)
	c["MemoryPatch"].Required = nil
	c["Memory"] = object("A stored memory, without its embedding.", join(metaProperties(), memoryBodyProperties(), []property{
		may("index_status", "Whether its vector is in the index; its words are at once.", status),
	})...)
	c["MemoryPage"] = object("One page of memories.",
		must("memories", "The memories.", list(ref("Memory"))), may("next_cursor", "The cursor of the next page; absent on the last.", str()))
	c["Remembered"] = object("The answer for one memory.", join(receiptProperties(), []property{
		must("index_status", "Whether its vector is in the index; its words are at once.", status),
		may("duplicate", "dedupe: the same text stood already, and this is where.", boolean()),
	})...)
	c["RememberedResult"] = object("The outcome of one memory of a list.",
		must("status", "As the same memory alone would answer.", integer(100)),
		may("memory", "What was stored.", ref("Remembered")), may("error", "Why it was not.", ref("Problem")))
	c["RememberedList"] = object("The answer to a list of memories.", must("results", "One entry per memory, in order.", list(ref("RememberedResult"))))
	c["LinkRequest"] = object("A link between two memories.", join([]property{must("from", "The id of the memory that holds it.", str())}, linkProperties())...)
	recallSchemas(c)
	c["Graph"] = object("What a walk along links reached.",
		must("nodes", "The memories, nearest first.", list(ref("GraphNode"))),
		must("edges", "The links between them.", list(ref("GraphEdge"))),
		may("truncated", "There was more than limit.", boolean()))
	c["GraphNode"] = object("A memory at its distance.", join(metaProperties(), memoryBodyProperties(), []property{
		may("index_status", "Whether its vector is in the index.", status), must("depth", "Links from the start.", integer(0)),
	})...)
	c["GraphEdge"] = object("A link between two memories.", join([]property{must("from", "Where it begins.", str())}, linkProperties())...)
}

// recallSchemas are what recall takes and answers.
func recallSchemas(c map[string]*huma.Schema) {
	most, k := float64(tiering.MaxRecall), integer(1)
	k.Maximum = &most
	one, several := 1, 100
	namespaces := list(text(128))
	namespaces.MinItems, namespaces.MaxItems = &one, &several
	c["RecallRequest"] = object("What to recall: a query, an embedding, or both.",
		must("namespaces", "Where to look.", namespaces),
		may("query", "A question or a text, in any language.", text(tiering.MaxMemoryText)),
		may("embedding", "Your own vector, in place of the query's.", vectorSchema()),
		may("embedding_model", "The space of embedding.", text(256)),
		may("k", "How many, 1 to 100; default 10.", k),
		may("user", "Only this owner's.", str()),
		may("agent", "Only this agent's.", str()),
		may("app", "Only this application's.", str()),
		may("session", "Only of this session.", str()),
		may("filter", "A filter as in /v1/query. A bare name is a field of metadata, a JSON Pointer one of the memory.", raw()),
		may("types", "Only these types.", list(memoryTypes())),
		may("since", "Only what happened then or later.", instant()),
		may("until", "Only what happened before.", instant()),
		may("mode", "hybrid, the default; vector or lexical: one arm alone.", enum("hybrid", "vector", "lexical")),
		may("deep", "Search vectors that lie dormant too.", boolean()),
		may("superseded", "Also what holds no more.", boolean()))
	c["MatchScore"] = object("total = relevance x (1 + recency + importance + use).",
		must("total", "What the matches are ordered by.", number()),
		must("relevance", "Of both arms, over the best: 0 to 1.", number()),
		must("recency", "At most 0.10; facts do not age.", number()),
		must("importance", "At most 0.10.", number()),
		must("use", "At most 0.05.", number()),
		must("vector", "The cosine; 0 where the vectors did not find it.", number()),
		may("vector_rank", "The place among vectors, from 1.", integer(1)),
		must("words", "The lexical score; 0 where the words did not find it.", number()),
		may("words_rank", "The place among words, from 1.", integer(1)))
	c["Match"] = object("One recalled memory.", join(metaProperties(), memoryBodyProperties(), []property{
		may("index_status", "Whether its vector is in the index.", enum(string(tiering.IndexPending), string(tiering.IndexIndexed), string(tiering.IndexFailed))),
		must("tier", "Where its bytes lay.", tierEnum()), must("score", "The parts of its score.", ref("MatchScore")),
	})...)
	c["Recalled"] = object("What was recalled, best first.",
		must("matches", "The memories.", list(ref("Match"))),
		may("partial", "An arm of the search could not take part.", boolean()),
		may("reason", "Which, and why.", str()))
}
