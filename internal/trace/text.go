package trace

// Sizes of the text of a block.
const (
	bytesPerToken = 4
	// BlockBytes is the length of the text of a block.
	BlockBytes = BlockTokens * bytesPerToken
	// loopShift leaves the low bits of a block's key to the id of the trace
	// (largest published: 18 bits) and the high ones to the number of the loop.
	loopShift = 40
)

// appendBlock appends the text of a block: BlockBytes bytes of plain words. The
// first eight words spell the key, lowest byte first, so that no two blocks are equal and
// most differ in the first word; the rest is drawn from a generator seeded with the key.
func appendBlock(dst []byte, key uint64) []byte {
	end := len(dst) + BlockBytes
	dst = appendWords(dst, key)
	for state := key; len(dst) < end; {
		state += 0x9e3779b97f4a7c15 // SplitMix64
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		dst = appendWords(dst, z^z>>31)
	}
	dst = dst[:end]
	dst[end-1] = ' ' // the word that was cut ends here, not in the next block
	return dst
}

// appendWords writes each byte of v as a word, lowest first.
func appendWords(dst []byte, v uint64) []byte {
	for range 8 {
		dst = append(dst, vocabulary[v&0xff]...)
		dst = append(dst, ' ')
		v >>= 8
	}
	return dst
}
