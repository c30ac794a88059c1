"""Mail: messages between harnesses and from operators, delivered once."""
