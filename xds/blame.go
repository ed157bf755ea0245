package xds

import (
	"strings"
	"unicode/utf8"
)

// maxReason bounds what is kept and logged of an Envoy's reason, in bytes. Some
// of its messages quote the whole resource first and say what is wrong at the end.
const maxReason = 1000

// blamed gives those of the names that an Envoy's message about a rejected
// response speaks of, with what it says of each.
//
// A name in the message is not part of a longer one: "pm|a" is not meant by
// "pm|a/b: no such thing". Names hold colons, and Envoy puts one behind them.
func blamed(message string, names []string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		if name != "" && mentions(message, name) {
			out[name] = ""
		}
	}
	for name := range out {
		out[name] = tidy(part(message, name, out))
	}
	return out
}

func mentions(message, name string) bool {
	for at := 0; ; {
		i := strings.Index(message[at:], name)
		if i < 0 {
			return false
		}
		begin, end := at+i, at+i+len(name)
		if !endsInName(message[:begin]) && !beginsInName(message[end:]) {
			return true
		}
		at = begin + 1
	}
}

// nameBytes are what the name of a cluster is made of (wire.ClusterName).
const nameBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/*-|~"

func endsInName(before string) bool {
	return before != "" && strings.IndexByte(nameBytes, before[len(before)-1]) >= 0
}

// beginsInName tells whether a name goes on here, punctuation of the sentence aside.
func beginsInName(after string) bool {
	rest := strings.TrimLeft(after, ".:")
	return rest != "" && strings.IndexByte(nameBytes, rest[0]) >= 0
}

// part is what a message of the form "...: NAME: reason, NAME: reason" says of
// one of the names; any other message is about all of them.
func part(message, name string, all map[string]string) string {
	begin := strings.Index(message, " "+name+": ")
	if begin < 0 {
		return message
	}
	own := message[begin+len(name)+3:]
	for other := range all {
		if i := strings.Index(own, ", "+other+": "); i >= 0 {
			own = own[:i]
		}
	}
	return own
}

// tidy makes one line of a message and takes the middle out of a long one.
func tidy(message string) string {
	message = strings.Join(strings.Fields(strings.ToValidUTF8(message, "?")), " ")
	if len(message) <= maxReason {
		return message
	}
	const gap = " ... "
	head, tail := maxReason/4, len(message)-(maxReason-maxReason/4-len(gap))
	for !utf8.RuneStart(message[head]) {
		head--
	}
	for !utf8.RuneStart(message[tail]) {
		tail++
	}
	return message[:head] + gap + message[tail:]
}
