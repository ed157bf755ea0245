package request

// key is a member of an object that something asks for.
type key uint8

const (
	none key = iota

	// Of the body.
	keyModel
	keyStream
	keyCacheSalt
	keyTruncatePromptTokens
	keyExtraKey
	keyPromptLogprobs
	keyFeatures
	keyContentParts
	keyMessages
	keySystem
	keyInstructions
	keyPrompt
	keyTokenIDs
	keyInputIDs
	keyUser
	keyPromptCacheKey
	keyPreviousResponseID
	keySessionID
	keyMetadata

	// Of the body, and of what it holds.
	keyInput
	keyText

	// Of items, parts and what they hold.
	keyRole
	keyContent
	keyOutput
	keyArguments
	keyToolCalls
	keyFunction
	keyType
	keyUserID

	firstInnerKey = keyInput
	numBodyKeys   = keyText + 1
	numInnerKeys  = keyUserID + 1 - firstInnerKey
)

// maxKey is the length of the longest key, "truncate_prompt_tokens".
const maxKey = 22

// shape says what is recorded of a value and of what it holds.
type shape uint8

const (
	leaf     shape = iota // the value only
	top                   // the body
	metadata              // an object with a user_id
	items                 // an array of messages or the like
	item
	parts // an array of content parts, or of strings
	part
	blocks // the content of a tool result
	block
	calls // tool calls
	call
	function
	list     // a prompt: an array of strings, of ids, or of arrays of ids
	sequence // an array of ids
)

func (s shape) isObject() bool {
	switch s {
	case top, metadata, item, part, block, call, function:
		return true
	}
	return false
}

func (s shape) isArray() bool {
	switch s {
	case items, parts, blocks, calls, list, sequence:
		return true
	}
	return false
}

// element is the shape of an array's elements.
func (s shape) element() shape {
	switch s {
	case items:
		return item
	case parts:
		return part
	case blocks:
		return block
	case calls:
		return call
	case list:
		return sequence
	}
	return leaf
}

// records tells whether an array records an element that begins with c. The others
// mean nothing there: they are ignored, or only decide what the array as a whole is.
func (s shape) records(c byte) bool {
	switch s {
	case parts:
		return c == '"' || c == '{'
	case list:
		return c == '"' || c == '['
	case sequence:
		return false
	}
	return true
}

// member looks a key up, given as it stands between its quotes.
func (t *tape) member(s shape, name []byte, f flags) (key, shape) {
	if f&escaped != 0 {
		const longest = len(`\u0000`) * maxKey
		if len(name) > longest {
			return none, leaf
		}
		var buf [longest]byte
		n, done := unescape(buf[:], name) // what is no UTF-8 stays so, and is no known key
		if done < len(name) {
			return none, leaf
		}
		name = buf[:n]
	}
	switch s {
	case top:
		k := bodyKey(name)
		return k, t.api.shapeOf(k)
	case metadata:
		if string(name) == "user_id" {
			return keyUserID, leaf
		}
	case item:
		switch string(name) {
		case "role":
			return keyRole, leaf
		case "content":
			return keyContent, parts
		case "output":
			return keyOutput, leaf
		case "arguments":
			return keyArguments, leaf
		case "tool_calls":
			return keyToolCalls, calls
		}
	case part:
		switch string(name) {
		case "type":
			return keyType, leaf
		case "text":
			return keyText, leaf
		case "content":
			return keyContent, blocks
		case "input":
			return keyInput, leaf
		}
	case block:
		if string(name) == "text" {
			return keyText, leaf
		}
	case call:
		if string(name) == "function" {
			return keyFunction, function
		}
	case function:
		if string(name) == "arguments" {
			return keyArguments, leaf
		}
	}
	return none, leaf
}

func bodyKey(name []byte) key {
	switch string(name) {
	case "model":
		return keyModel
	case "stream":
		return keyStream
	case "cache_salt":
		return keyCacheSalt
	case "truncate_prompt_tokens":
		return keyTruncatePromptTokens
	case "extra_key":
		return keyExtraKey
	case "prompt_logprobs":
		return keyPromptLogprobs
	case "features":
		return keyFeatures
	case "content_parts":
		return keyContentParts
	case "messages":
		return keyMessages
	case "system":
		return keySystem
	case "instructions":
		return keyInstructions
	case "input":
		return keyInput
	case "prompt":
		return keyPrompt
	case "text":
		return keyText
	case "token_ids":
		return keyTokenIDs
	case "input_ids":
		return keyInputIDs
	case "user":
		return keyUser
	case "prompt_cache_key":
		return keyPromptCacheKey
	case "previous_response_id":
		return keyPreviousResponseID
	case "session_id":
		return keySessionID
	case "metadata":
		return keyMetadata
	}
	return none
}
