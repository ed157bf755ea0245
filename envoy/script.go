package envoy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pointsman/pointsman/internal/wire"
)

// scriptText is the part of the script that is the same for all targets. Envoy's
// Lua cannot ask which cluster it runs for, so the few values that
// belong to a target stand before it, as local variables.
//
// The order matters: an error lets the request go on as it is. Path and
// content-length are the client's own again before anything can fail, and setBytes
// sets the length together with the body, so that length and body always agree; a
// length that did not would make the rest of a body the next request.
//
// Every attempt begins with the body that extproc let through. r:body() is nil
// without one (GET). The pieces are put together once: a body may hold the key often.
const scriptText = `
function envoy_on_request(r)
  local h = r:headers()
  local dm = r:streamInfo():dynamicMetadata()
  local o = dm:get('pointsman.original')
  if o == nil then
    dm:set('pointsman.original', 'path', h:get(':path'))
    dm:set('pointsman.original', 'length', h:get('content-length') or '')
    o = dm:get('pointsman.original')
  end
  if o.length == '' then h:remove('content-length') else h:replace('content-length', o.length) end
  local path = o.path
  if drop_v1 and (path == '/v1' or path:find('^/v1[/?]')) then path = path:sub(4) end
  h:replace(':path', prefix .. path)

  local d = dm:get('` + wire.DecisionNamespace + `')
  if d == nil or d.` + wire.KeySpans + ` == nil or d.` + wire.KeyAsked + ` == model then return end
  local text = d.` + wire.KeyText + `
  if model and d.` + wire.KeyForm + ` then text = model elseif model then text = json end
  local b = r:body()
  if b == nil or text == nil then return end
  local parts, from = {}, 0
  for _, s in ipairs(d.` + wire.KeySpans + `) do
    parts[#parts + 1] = b:getBytes(from, s[1] - from)
    parts[#parts + 1] = text
    from = s[1] + s[2]
  end
  parts[#parts + 1] = b:getBytes(from, b:length() - from)
  b:setBytes(table.concat(parts))
end
`

// script is the Lua of a target. A target without a model serves whatever was asked.
func script(model, prefix string) string {
	var b strings.Builder
	dropV1 := strings.HasSuffix(prefix, "/v1")
	fmt.Fprintf(&b, "local prefix, drop_v1 = %s, %t\n", luaString(prefix), dropV1)
	if model == "" {
		b.WriteString("local model, json\n")
	} else {
		fmt.Fprintf(&b, "local model, json = %s, %s\n", luaString(model), luaString(jsonString(model)))
	}
	b.WriteString(scriptText[1:])
	return b.String()
}

// luaString writes a string so that no byte of it can mean anything to Lua, or be
// taken for a format by Envoy: all but letters, digits and a little else as \ddd.
func luaString(s string) string {
	var b strings.Builder
	b.WriteByte('\'')
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("/_.:-", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\%03d`, c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

// jsonString encodes a string, which cannot fail.
func jsonString(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}
