"""The model providers: one module for each protocol, on the vendor's own SDK.

provider_for("anthropic:claude-…")      Anthropic's Messages                    extra `anthropic`
provider_for("openai:gpt-…")            OpenAI's Responses                      extra `openai`
provider_for("openai-chat:…")           Chat Completions, and any server that speaks them
"""
