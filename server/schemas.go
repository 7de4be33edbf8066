package server

import (
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tierd/tierd/tiering"
)

// The constructors below write a JSON Schema in one line. They return a new
// value each time, because components are decorated where they are used.

func str() *huma.Schema     { return &huma.Schema{Type: huma.TypeString} }
func boolean() *huma.Schema { return &huma.Schema{Type: huma.TypeBoolean} }
func number() *huma.Schema  { return &huma.Schema{Type: huma.TypeNumber} }
func anyJSON() *huma.Schema { return &huma.Schema{} }
func instant() *huma.Schema { return &huma.Schema{Type: huma.TypeString, Format: "date-time"} }
func raw() *huma.Schema     { return &huma.Schema{Type: huma.TypeObject} }

func integer(least float64) *huma.Schema {
	return &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &least}
}

func version() *huma.Schema { return integer(1) }

func text(most int) *huma.Schema { return &huma.Schema{Type: huma.TypeString, MaxLength: &most} }

func limited() *huma.Schema {
	s := integer(1)
	most := float64(maxLimit)
	s.Maximum = &most
	return s
}

func enum(words ...string) *huma.Schema {
	s := str()
	for _, w := range words {
		s.Enum = append(s.Enum, w)
	}
	return s
}

func list(of *huma.Schema) *huma.Schema { return &huma.Schema{Type: huma.TypeArray, Items: of} }

func ref(component string) *huma.Schema { return &huma.Schema{Ref: schemaPrefix + component} }

// The forms of durations in bodies, as tiering.ParseDuration reads them.
const (
	lifetimePattern = `^([0-9]+d?|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	ttlPattern      = `^(none|[0-9]+d?|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
)

// lifetime is a duration as a body may write it.
func lifetime() *huma.Schema {
	word := str()
	word.Pattern = lifetimePattern
	s := &huma.Schema{OneOf: []*huma.Schema{word, integer(0)}}
	s.Description = "Whole seconds, or a text such as 30m, 12h or 7d."
	return s
}

func about(text string, s *huma.Schema) *huma.Schema {
	s.Description = text
	return s
}

// property is a property of an object.
type property struct {
	name     string
	required bool
	schema   *huma.Schema
}

func must(name, doc string, s *huma.Schema) property { return property{name, true, about(doc, s)} }
func may(name, doc string, s *huma.Schema) property  { return property{name, false, about(doc, s)} }

// object is an object with these properties and no others.
func object(doc string, props ...property) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeObject, Description: doc}
	if len(props) == 0 {
		return s
	}
	s.AdditionalProperties = false
	s.Properties = map[string]*huma.Schema{}
	for _, p := range props {
		s.Properties[p.name] = p.schema
		if p.required {
			s.Required = append(s.Required, p.name)
		}
	}
	return s
}

// join is the properties of several lists; a later one replaces an earlier
// one of its name.
func join(lists ...[]property) []property {
	var all []property
	for _, l := range lists {
		for _, p := range l {
			if i := slices.IndexFunc(all, func(q property) bool { return q.name == p.name }); i >= 0 {
				all[i] = p
				continue
			}
			all = append(all, p)
		}
	}
	return all
}

// components are the named schemas. Request bodies are validated against them,
// so what they say of a request is what is enforced.
func components() map[string]*huma.Schema {
	c := map[string]*huma.Schema{}
	requestSchemas(c)
	documentSchemas(c)
	memorySchemas(c)
	embeddingSchemas(c)
	logSchemas(c)
	sessionSchemas(c)
	consumerSchemas(c)
	nodeSchemas(c)
	operateSchemas(c)
	return c
}

func ownProperties() []property {
	return []property{
		must("namespace", "The namespace.", text(128)),
		must("id", "The document's id.", str()),
	}
}

func policyProperties() []property {
	p := tiering.Policy{}.WithDefaults()
	least, most := 0.0, 1.0
	share := number()
	share.ExclusiveMinimum, share.Maximum = &least, &most
	size := integer(1)
	largest := float64(p.MaxSize)
	size.Maximum = &largest
	return []property{
		may("kind", "What the namespace holds. Fixed once keys exist. session is of tierd's own namespaces.", enum("state", "log", "memory", "session")),
		may("class", "How long its documents live, and where. Fixed once keys exist.", enum("ephemeral", "session", "persistent")),
		may("ttl", "The life given to a new document that asks for none; session: 1h.", lifetime()),
		may("hot_ttl", "How long hot keeps a document from its last set; default 5m.", lifetime()),
		may("retire_after", "How long a superseded version stays in warm once it is archived twice; default 1h.", lifetime()),
		may("demote_after", "How long a document idles, and how old an entry of a log is, before its bytes leave warm; default 30d.", lifetime()),
		may("keep_versions", "A version is kept while this many newer ones do not exist, or keep_for covers it; default 1000.", integer(0)),
		may("keep_for", "How long a superseded version is kept at least; default 365d.", lifetime()),
		may("promote", "Whether a read from cold brings the bytes back to warm; default true.", boolean()),
		may("schema", "A JSON Schema 2020-12 that every document must meet.", anyJSON()),
		may("default", "Answered by a plain cached get when nothing is stored, or when the load took longer than load_deadline.", anyJSON()),
		may("load_deadline", "After which a plain cached get answers the default; 0: never.", lifetime()),
		may("max_size", "The largest document, in bytes; default and upper bound 8 MiB.", size),
		may("context_window", "The size in bytes that a model can take; warned against in place of max_size.", integer(0)),
		may("warn_at", "The share of the size above which writes carry Tierd-Warning: size; default 0.70.", share),
		may("require_version", "Refuse writes without If-Match (428).", boolean()),
		may("query", "Keep current documents queryable after demotion; default true.", boolean()),
		may("query_index", "Build an index by content, on PostgreSQL in the background, so that queries for few of many documents read only those; no effect on SQLite. Default false.", boolean()),
		may("status_pointer", "The JSON Pointer of a state machine's state, recorded on traces.", str()),
	}
}

func editOpSchema() *huma.Schema {
	return object("One edit operation.",
		must("op", "What to do.", enum("set", "remove", "increment", "append", "add_to_set", "remove_from_set", "max", "min")),
		must("pointer", "The JSON Pointer of the part to change; empty is the whole document.", str()),
		may("value", "The operand; any JSON value.", anyJSON()),
		may("by", "increment: the number to add, default 1.", number()))
}

func scopeSchema() *huma.Schema {
	one := 1
	some := func(s *huma.Schema) *huma.Schema {
		s.MinItems = &one
		return s
	}
	user := text(256)
	user.MinLength = &one
	return object("What a key may do. A limit that is absent limits nothing; an empty one is refused.",
		may("verbs", "The verbs. write alone is told nothing of what stands: writes that answer with it need read too, and say so.", some(list(enum("read", "write", "delete", "admin", "metrics")))),
		may("namespaces", "The namespaces.", some(list(str()))),
		may("prefixes", "Beginnings of ids.", some(list(str()))),
		may("user", "Sees and makes this owner's documents only.", user))
}

// requestSchemas are the bodies that callers send.
func requestSchemas(c map[string]*huma.Schema) {
	one, most, mostEdits := 1, tiering.MaxBatchOps, tiering.MaxEditOps
	edits := list(ref("EditOp"))
	edits.MinItems, edits.MaxItems = &one, &mostEdits
	ops := list(ref("BatchOp"))
	ops.MinItems, ops.MaxItems = &one, &most

	c["EditOp"] = editOpSchema()
	c["EditRequest"] = object("Edit operations, run in order, all or none.",
		must("ops", "The operations.", edits),
		may("if_version", "As If-Match: the version that must stand; 0: nothing.", integer(0)))
	c["RollbackRequest"] = object("The version to go back to.", must("version", "The version.", version()))
	c["TouchRequest"] = object("A new expiry. Without ttl the document's own life starts anew.",
		may("ttl", "A life from now, or none, which clears the expiry.", ttlSchema()),
		may("exact", "Allow the life to become shorter.", boolean()))
	c["Query"] = object("A filter over the documents of a namespace.",
		may("filter", "The filter; all documents when absent.", raw()),
		may("order_by", "A JSON Pointer or a name; - before it: descending; absent: by id.", str()),
		may("user", "Only this owner's.", str()),
		may("prefix", "Beginning of the ids, as bytes.", str()),
		may("limit", "The size of a page, default 100.", limited()),
		may("cursor", "next_cursor of the page before.", str()))
	c["BatchOp"] = object("One operation of a batch.",
		must("op", "What to do.", enum("put", "patch", "edit", "delete", "get", "check", "append", "remember")),
		must("namespace", "The namespace.", text(128)),
		must("id", "The document's id.", str()),
		may("data", "put: the body. patch: a merge patch, or a JSON patch when it is an array. append: an entry, or several when it is an array.", anyJSON()),
		may("ops", "edit: the operations.", edits),
		may("if_version", "The version, or of an append the last sequence number, that must stand; 0: nothing.", integer(0)),
		may("ttl", "A life from now, or none.", ttlSchema()),
		may("user", "put and append: the owner, fixed when the key is created.", str()))
	c["Batch"] = object("A list of operations.",
		may("atomic", "All or nothing.", boolean()),
		must("ops", "The operations, run in order.", ops))
	c["Policy"] = object("How a namespace keeps its documents. What is left unsaid takes its default.", policyProperties()...)
	c["PolicyPatch"] = object("A merge patch of a policy: null sets a field back to its default.", nullable(policyProperties())...)
	c["Scope"] = scopeSchema()
	c["KeyRequest"] = object("A new API key.",
		may("name", "For people.", text(256)),
		may("scope", "Its limits; absent: everything of the tenant.", ref("Scope")),
		may("expires_at", "When it stops working; absent: never.", instant()))
}

func ttlSchema() *huma.Schema {
	word := str()
	word.Pattern = ttlPattern
	return &huma.Schema{OneOf: []*huma.Schema{word, integer(1)}}
}

// nullable lets each property be null too, as a merge patch may.
func nullable(props []property) []property {
	for i, p := range props {
		if p.schema.Type == "" && p.schema.OneOf == nil {
			continue // any value, null among them
		}
		props[i].schema = about(p.schema.Description, &huma.Schema{AnyOf: []*huma.Schema{p.schema, {Type: "null"}}})
	}
	return props
}
